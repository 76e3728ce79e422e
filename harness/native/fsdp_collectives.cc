#include "harness/native/fsdp_collectives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "harness/base/check.h"
#include "harness/native/numbers.h"
#include "harness/native/py_error.h"
#include "harness/native/stuck.h"

namespace shardfuzz::native {
namespace {

char* bytes_of(const at::Tensor& tensor) {
  return tensor.numel() == 0 ? nullptr : static_cast<char*>(tensor.data_ptr());
}

std::int64_t byte_count(const at::Tensor& tensor) {
  return tensor.numel() * static_cast<std::int64_t>(tensor.itemsize());
}

// _get_param_all_gather_inputs: plain parameters with a cast are copied into one buffer together.
std::vector<std::vector<at::Tensor>> param_all_gather_inputs(const Params& params,
                                                             Observer& observer) {
  std::vector<std::vector<at::Tensor>> inputs(params.size());
  std::vector<std::size_t> foreach;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (params[i]->use_foreach_copy()) {
      foreach
        .push_back(i);
      total += params[i]->foreach_source().numel();
    } else {
      inputs[i] = params[i]->all_gather_inputs();
    }
  }
  if (!foreach.empty()) {
    const c10::ScalarType dtype = *params[foreach[0]]->param_dtype;
    const at::Tensor flat = empty({total}, dtype);
    std::int64_t offset = 0;
    for (const std::size_t i : foreach) {
      const at::Tensor& source = params[i]->foreach_source();
      inputs[i] = {rows_of(flat, offset, source.numel())};
      convert(bytes_of(inputs[i][0]), dtype, source.const_data_ptr(), source.scalar_type(),
              source.numel());
      offset += source.numel();
    }
  }
  for (const std::size_t i : foreach) params[i]->note_foreach_input(inputs[i][0]);
  observer.current = nullptr;
  return inputs;
}

}  // namespace

AllGatherResult foreach_all_gather(const Params& params, Comm& comm, const GroupName& group,
                                   bool async_op, Observer& observer, const Planted& planted) {
  const int world_size = comm.size(group);
  AllGatherResult result;
  const auto inputs = param_all_gather_inputs(params, observer);
  c10::ScalarType dtype = inputs[0][0].scalar_type();
  std::int64_t bytes = 0;
  for (const auto& of_param : inputs) {
    auto& dtypes = result.input_dtypes.emplace_back();
    auto& numels = result.input_numels.emplace_back();
    for (const at::Tensor& input : of_param) {
      if (input.scalar_type() != inputs[0][0].scalar_type()) dtype = c10::ScalarType::Byte;
      dtypes.push_back(input.scalar_type());
      numels.push_back(input.numel());
      result.split_bytes.push_back(byte_count(input));
      bytes += byte_count(input);
    }
  }
  const std::int64_t count = bytes / static_cast<std::int64_t>(c10::elementSize(dtype));
  result.output = empty({count * world_size}, dtype);
  const at::Tensor own = rows_of(result.output, count * comm.rank(group), count);
  char* to = bytes_of(own);
  for (const auto& of_param : inputs) {
    for (const at::Tensor& input : of_param) {
      if (input.numel() == 0) continue;
      std::memcpy(to, input.const_data_ptr(), static_cast<std::size_t>(byte_count(input)));
      to += byte_count(input);
    }
  }
  const bool has_rows = std::all_of(params.begin(), params.end(), [](const auto& param) {
    return param->sharded_param.numel() > 0;
  });
  if (planted.is(Bug::kShortRankSkips) && !has_rows) return result;
  raising_at("distributed_c10d.py:all_gather_into_tensor", [&] {
    result.work = comm.all_gather(group, buffer_of(result.output), buffer_of(own));
    if (async_op) return;
    result.work->wait();
    result.work.reset();
  });
  return result;
}

namespace {

// Shard(d > 0): the ranks' parts, which lie one after the other, are put side by side along d.
void chunk_cat(const at::Tensor& gathered, const at::Tensor& target, const FsdpParam& param,
               int world_size) {
  if (param.sharded_state == ShardedState::kShardedPostForward) {
    // FSDP2 takes the size of a flat tensor here, which has no such dimension.
    throw PyError("IndexError", "list index out of range",
                  "_fsdp_collectives.py:foreach_all_gather_copy_out");
  }
  const Shape& part = param.padded_sharded_param_size;
  const auto dim = static_cast<std::size_t>(param.shard_dim);
  std::int64_t outer = 1, inner = static_cast<std::int64_t>(target.itemsize());
  for (std::size_t d = 0; d < part.size(); ++d) {
    if (d < dim) outer *= part[d];
    if (d >= dim) inner *= part[d];
  }
  const char* from = bytes_of(gathered);
  char* to = bytes_of(target);
  for (int rank = 0; rank < world_size; ++rank) {
    for (std::int64_t o = 0; o < outer; ++o) {
      std::memcpy(to + (o * world_size + rank) * inner, from, static_cast<std::size_t>(inner));
      from += inner;
    }
  }
}

// The group may have been resharded since the gather was launched, from what an int reshard kept:
// then it is copied out for more ranks than sent (FSDPParamGroup.wait_for_unshard), which does not
// fit.
void check_splits(const AllGatherResult& result, int world_size) {
  const auto item = static_cast<std::int64_t>(result.output.itemsize());
  const std::int64_t columns = result.output.numel() / world_size;
  std::vector<std::int64_t> splits;
  std::int64_t sum = 0;
  for (const std::int64_t bytes : result.split_bytes) {
    splits.push_back(bytes / item);
    sum += splits.back();
  }
  if (sum == columns) return;
  throw PyError(
      "RuntimeError",
      fmt::format("split_with_sizes expects split_sizes to sum exactly to {} (input tensor's size "
                  "at dimension 1), but got split_sizes=[{}]",
                  columns, fmt::join(splits, ", ")),
      "_fsdp_collectives.py:split_with_sizes_copy");
}

void copy_out(const AllGatherResult& result, const std::vector<at::Tensor>& outputs, int world_size,
              const Planted& planted) {
  const char* from = bytes_of(result.output);
  for (int rank = 0; rank < world_size; ++rank) {
    const int slot = planted.is(Bug::kSwapsSlots) && rank < 2 ? 1 - rank : rank;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto bytes = static_cast<std::size_t>(result.split_bytes[i]);
      if (bytes == 0) continue;
      std::memcpy(bytes_of(outputs[i]) + bytes * static_cast<std::size_t>(slot), from, bytes);
      from += bytes;
    }
  }
}

}  // namespace

void foreach_all_gather_copy_out(AllGatherResult& result, const Params& params, int world_size,
                                 const Planted& planted) {
  if (result.work) {
    raising_at("_fsdp_collectives.py:foreach_all_gather_copy_out", [&] { result.work->wait(); });
  }
  std::vector<at::Tensor> outputs;
  std::vector<std::pair<const FsdpParam*, std::size_t>> cut_elsewhere;  // and its first output
  bool is_first = true;
  for (std::size_t i = 0; i < params.size(); ++i) {
    FsdpParam& param = *params[i];
    is_first = is_first && param.all_gather_outputs.empty();
    if (planted.is(Bug::kIgnoresOut) && param.unsharded_param.defined()) {
      alloc_storage(param.all_gather_outputs[0]);
      param.all_gather_outputs.clear();
    }
    param.init_all_gather_outputs(result.input_numels[i], result.input_dtypes[i], world_size);
    param.alloc_all_gather_outputs();
    if (param.shard_dim != 0) cut_elsewhere.emplace_back(&param, outputs.size());
    for (const at::Tensor& output : param.all_gather_outputs) {
      outputs.push_back(param.shard_dim == 0 ? output
                                             : empty(output.sizes(), output.scalar_type()));
    }
  }
  check_splits(result, world_size);
  if (planted.is(Bug::kStaleSecondGather) && !is_first) return;
  copy_out(result, outputs, world_size, planted);
  for (const auto& [param, first] : cut_elsewhere) {
    for (std::size_t i = 0; i < param->all_gather_outputs.size(); ++i) {
      chunk_cat(outputs[first + i], param->all_gather_outputs[i], *param, world_size);
    }
  }
}

namespace {

// _get_gradient_divide_factors without a custom factor. A factor of 0 is Python's None.
struct DivideFactors {
  double before = 0, after = 0;
  ReduceKind kind = ReduceKind::kSum;
};

DivideFactors divide_factors(int data_parallel_size, c10::ScalarType reduce_dtype) {
  const bool overflow_risk =
      reduce_dtype != c10::ScalarType::Float && reduce_dtype != c10::ScalarType::BFloat16;
  if (!overflow_risk) {
    return {.kind = data_parallel_size == 1 ? ReduceKind::kSum : ReduceKind::kAvg};
  }
  const auto factor = static_cast<double>(data_parallel_size);
  double before = 1;
  while (data_parallel_size % static_cast<int>(before) == 0 && factor / before > before) {
    before *= 2;
  }
  return {.before = before, .after = factor / before};
}

void divide_if_needed(const at::Tensor& tensor, double factor) {
  if (factor > 1) divide(tensor.data_ptr(), tensor.scalar_type(), tensor.numel(), factor);
}

// Shard(d > 0): the parts along d one after the other on dim 0.
at::Tensor parts_on_dim0(const at::Tensor& gradient, int dim, int world_size) {
  const Shape shape = gradient.sizes().vec();
  const auto at = static_cast<std::size_t>(dim);
  at::Tensor made = empty({gradient.numel()}, gradient.scalar_type());
  std::int64_t outer = 1, run = static_cast<std::int64_t>(gradient.itemsize());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d < at) outer *= shape[d];
    if (d >= at) run *= shape[d];
  }
  run /= world_size;
  char* to = bytes_of(made);
  for (int part = 0; part < world_size; ++part) {
    for (std::int64_t o = 0; o < outer; ++o) {
      std::memcpy(to, bytes_of(gradient) + (o * world_size + part) * run,
                  static_cast<std::size_t>(run));
      to += run;
    }
  }
  Shape cut = shape;
  cut[at] /= world_size;
  cut[0] *= world_size;
  return view_as(made, cut);
}

// foreach_reduce_scatter_copy_in: for each rank, its padded rows of every gradient, as
// torch._chunk_cat lays them out.
void chunk_cat_in(const std::vector<at::Tensor>& gradients, const at::Tensor& input, int world_size,
                  const Planted& planted) {
  char* to = bytes_of(input);
  const auto item = static_cast<std::int64_t>(input.itemsize());
  for (int rank = 0; rank < world_size; ++rank) {
    for (const at::Tensor& gradient : gradients) {
      const std::int64_t row = gradient.numel() / std::max<std::int64_t>(gradient.size(0), 1);
      Chunk own = chunk_of(gradient.size(0), world_size, rank);
      if (planted.is(Bug::kDropsLastRow) && own.start + own.length == gradient.size(0)) {
        own.length = std::max<std::int64_t>(own.length - 1, 0);
      }
      const Chunk padded = chunk_of(gradient.size(0), world_size, 0);
      if (own.length > 0) {
        convert(
            to, input.scalar_type(),
            bytes_of(gradient) + own.start * row * static_cast<std::int64_t>(gradient.itemsize()),
            gradient.scalar_type(), own.length * row);
      }
      const std::int64_t rest = (padded.length - own.length) * row * item;
      if (rest > 0) std::memset(to + own.length * row * item, 0, static_cast<std::size_t>(rest));
      to += padded.length * row * item;
    }
  }
}

void check_uniform_dtype(const std::vector<at::Tensor>& gradients) {
  std::set<std::string> dtypes;
  for (const at::Tensor& gradient : gradients) {
    dtypes.insert(std::string("torch.") + dtype_name(gradient.scalar_type()));
  }
  if (dtypes.size() == 1) return;
  throw PyError("AssertionError",
                fmt::format("FSDP reduce-scatter expects uniform gradient dtype but got {{{}}}",
                            fmt::join(dtypes, ", ")),
                "_fsdp_common.py:_raise_assert_with_print");
}

// `into += from`, of reductions that may have come from other parameters.
void add_partial(const at::Tensor& into, const at::Tensor& from) {
  torch_error_at("_fsdp_collectives.py:foreach_reduce", [&] { into.add_(from); });
}

// What torch says to `parameter.grad = gradient` (python_variable.cpp). It happens where a group
// was frozen when its dtypes were settled (pytorch#186998).
PyError wrong_gradient_dtype(c10::ScalarType gradient, c10::ScalarType parameter) {
  const auto text = [](c10::ScalarType dtype) -> std::string {
    if (dtype == c10::ScalarType::BFloat16) return "c10::BFloat16";
    if (dtype == c10::ScalarType::Half) return "c10::Half";
    return "float";
  };
  return {"RuntimeError",
          fmt::format("attempting to assign a gradient with dtype '{}' to a tensor with grad_dtype "
                      "'{}'. The gradient must match the tensor's grad_dtype (defaults to the "
                      "tensor's dtype). You can set the tensor's grad_dtype attribute with a "
                      "specific dtype, or None to allow any dtype. Set grad_dtype with caution. "
                      "Diverging the dtypes of a tensor and its gradient may break downstream "
                      "systems that assume they match.",
                      text(gradient), c10::toString(parameter)),
          "_fsdp_collectives.py:foreach_reduce"};
}

void view_out(const std::vector<FsdpParam*>& params, const at::Tensor& output,
              const std::vector<std::int64_t>& padded_numels) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < params.size(); ++i) {
    FsdpParam& param = *params[i];
    const at::Tensor shard =
        as_strided(output, param.sharded_size, contiguous_stride(param.sharded_size), offset);
    if (!param.grad.defined()) {
      if (shard.scalar_type() != param.sharded_param.scalar_type()) {
        throw wrong_gradient_dtype(shard.scalar_type(), param.sharded_param.scalar_type());
      }
      param.grad = shard;
    } else if (shard.numel() > 0) {
      const at::Tensor same = to_dtype(shard, param.grad.scalar_type());
      add(param.grad.data_ptr(), same.const_data_ptr(), same.scalar_type(), same.numel());
    }
    offset += padded_numels[i];
  }
}

}  // namespace

at::Tensor foreach_reduce(const std::vector<FsdpParam*>& params, std::vector<at::Tensor> gradients,
                          Comm& comm, const ReduceOptions& options, at::Tensor partial_output,
                          const Planted& planted, const KeptBuffers& kept) {
  check_uniform_dtype(gradients);
  c10::ScalarType reduce_dtype = options.reduce_dtype.value_or(gradients[0].scalar_type());
  if (planted.is(Bug::kReduceInParamDtype)) reduce_dtype = gradients[0].scalar_type();
  const int world_size = comm.size(kShardGroup);
  const int replicas = options.has_replicas ? comm.size(kReplicateGroup) : 1;
  const DivideFactors factors = divide_factors(world_size * replicas, reduce_dtype);
  std::vector<std::int64_t> padded_numels;  // of one rank
  std::int64_t total = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (world_size > 1 && params[i]->shard_dim != 0) {
      gradients[i] = parts_on_dim0(gradients[i], params[i]->shard_dim, world_size);
    }
    const std::int64_t rows = gradients[i].size(0);
    const std::int64_t row = gradients[i].numel() / std::max<std::int64_t>(rows, 1);
    padded_numels.push_back(chunk_of(rows, world_size, 0).length * row);
    total += padded_numels.back();
  }
  const at::Tensor input = empty({total * world_size}, reduce_dtype);
  chunk_cat_in(gradients, input, world_size, planted);
  gradients.clear();
  at::Tensor output = empty({total}, reduce_dtype);
  divide_if_needed(input, factors.before);
  if (world_size > 1) {
    raising_at("distributed_c10d.py:reduce_scatter_tensor", [&] {
      comm.reduce_scatter(buffer_of(output), buffer_of(input), factors.kind)->wait();
    });
  } else {
    std::memcpy(output.data_ptr(), input.const_data_ptr(), output.nbytes());
  }
  *kept.reduce_scatter_input = input;
  if (options.has_replicas) {
    if (partial_output.defined()) {
      const at::Tensor& into = options.all_reduce_grads ? output : partial_output;
      const at::Tensor& from = options.all_reduce_grads ? partial_output : output;
      add_partial(into, from);
    }
    if (!options.all_reduce_grads) return partial_output.defined() ? partial_output : output;
    raising_at("distributed_c10d.py:all_reduce",
               [&] { comm.all_reduce(buffer_of(output), factors.kind)->wait(); });
    *kept.all_reduce_input = output;
  }
  divide_if_needed(output, factors.after);
  if (planted.is(Bug::kDivideTwice)) divide_if_needed(output, world_size);
  output = to_dtype(output, options.orig_dtype.value_or(output.scalar_type()));
  view_out(params, output, padded_numels);
  return {};
}

}  // namespace shardfuzz::native
