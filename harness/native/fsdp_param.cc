#include "harness/native/fsdp_param.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "harness/base/check.h"
#include "harness/native/numbers.h"
#include "harness/native/py_error.h"

namespace shardfuzz::native {

c10::ScalarType scalar_type_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return c10::ScalarType::Float;
    case DType::kBFloat16: return c10::ScalarType::BFloat16;
    case DType::kFloat16: return c10::ScalarType::Half;
    case DType::kFloat8E4M3: return c10::ScalarType::Float8_e4m3fn;
    case DType::kUInt8: return c10::ScalarType::Byte;
  }
  SHARDFUZZ_CHECK(false, "no such dtype");
}

Chunk chunk_of(std::int64_t size, int chunk_count, int index) {
  const std::int64_t length = (size + chunk_count - 1) / chunk_count;
  const std::int64_t start = std::min(length * index, size);
  return {.start = start, .length = std::min(length, size - start)};
}

FsdpParam::FsdpParam(const GroupSpec& group, const ParamSpec& spec, const at::Tensor& full,
                     const MeshFacts& mesh, const Planted& planted, Observer* observer)
    : group_(&group),
      spec_(&spec),
      planted_(&planted),
      observer_(observer),
      mesh_(mesh),
      kind(*weight_kind(spec.pack, spec.hook)),
      shard_dim(spec.shard_dim),
      orig_size(spec.shape),
      contiguous_orig_stride(contiguous_stride(spec.shape)),
      orig_dtype(scalar_type_of(spec.dtype)),
      requires_grad(spec.requires_grad) {
  init_sharded_param(full);
  if (mesh_.post_forward_size > 0) init_post_forward_size();
}

void FsdpParam::init_sharded_param(const at::Tensor& full) {
  const auto dim = static_cast<std::size_t>(shard_dim);
  if (shard_dim > 0 && orig_size[dim] % mesh_.shard_size != 0) {
    throw PyError(
        "NotImplementedError",
        fmt::format("FSDP does not support uneven sharding on dim {}: {} (world size: {})",
                    shard_dim, size_text(orig_size), mesh_.shard_size),
        "_fsdp_param.py:_init_sharded_param");
  }
  const Chunk first = chunk_of(orig_size[dim], mesh_.shard_size, 0);
  const Chunk own = chunk_of(orig_size[dim], mesh_.shard_size, mesh_.shard_rank);
  padded_sharded_param_size = sharded_size = orig_size;
  padded_sharded_param_size[dim] = first.length;
  sharded_size[dim] = own.length;
  sharded_param_data = zeros(padded_sharded_param_size, orig_dtype);
  std::int64_t outer = 1, inner = full.itemsize();
  for (std::size_t d = 0; d < orig_size.size(); ++d) {
    if (d < dim) outer *= orig_size[d];
    if (d > dim) inner *= orig_size[d];
  }
  auto* to = static_cast<char*>(sharded_param_data.mutable_data_ptr());
  const auto* from = static_cast<const char*>(full.const_data_ptr());
  for (std::int64_t o = 0; o < outer && own.length > 0; ++o) {
    std::memcpy(to + o * first.length * inner, from + (o * orig_size[dim] + own.start) * inner,
                static_cast<std::size_t>(own.length * inner));
  }
  // Even where the dimension is not the first, so that the view is contiguous.
  sharded_param = as_strided(sharded_param_data, sharded_size, contiguous_stride(sharded_size));
}

void FsdpParam::init_post_forward_size() {
  const auto dim = static_cast<std::size_t>(shard_dim);
  // FSDP2 cuts on dim 0 here, whatever the placement, and takes an empty chunk's size on the
  // placement's.
  const Chunk own = chunk_of(orig_size[0], mesh_.post_forward_size, mesh_.post_forward_rank);
  sharded_post_forward_size = orig_size;
  sharded_post_forward_size[own.length > 0 ? 0 : dim] = own.length;
}

void FsdpParam::init_dtype_attrs(const MixedPrecision& policy) {
  const auto type = [](const std::optional<DType>& dtype) -> std::optional<c10::ScalarType> {
    if (!dtype) return std::nullopt;
    return scalar_type_of(*dtype);
  };
  policy_param_dtype = param_dtype = type(policy.param_dtype);
  reduce_dtype = type(policy.reduce_dtype);
  orig_dtype = sharded_param.scalar_type();
  if (reduce_dtype == param_dtype) reduce_dtype.reset();
  if (param_dtype == orig_dtype) param_dtype.reset();
}

void FsdpParam::reset_sharded_param() {
  // A plain tensor's shard still lies in the padded one. FSDP2 does not look into a subclass, and
  // pads its shard again.
  if (kind == WeightKind::kPlain) return;
  if (sharded_size == padded_sharded_param_size) {
    sharded_param_data = sharded_param;
    return;
  }
  at::Tensor padded = zeros(padded_sharded_param_size, sharded_param.scalar_type());
  if (sharded_param.numel() > 0) {
    std::memcpy(padded.mutable_data_ptr(), sharded_param.const_data_ptr(), sharded_param.nbytes());
  }
  sharded_param_data = padded;
  sharded_param = as_strided(padded, sharded_size, contiguous_stride(sharded_size));
}

bool FsdpParam::use_foreach_copy() const {
  return param_dtype && !group_->offload_to_cpu && !has_hooks(kind);
}

const at::Tensor& FsdpParam::foreach_source() const {
  return sharded_state == ShardedState::kSharded ? sharded_param_data : post_forward_data;
}

namespace {

// The flat input of the plain path in the padded shard's shape, where it has as many elements.
at::Tensor shaped(const FsdpParam& param, const at::Tensor& flat) {
  if (flat.numel() != numel_of(param.padded_sharded_param_size)) return flat;
  return view_as(flat, param.padded_sharded_param_size);
}

at::Tensor flat_view(const at::Tensor& tensor) { return view_as(tensor, {tensor.numel()}); }

}  // namespace

void FsdpParam::note_foreach_input(const at::Tensor& sent) {
  observer_->pre_all_gather(*this, {shaped(*this, sent)});
}

std::vector<at::Tensor> FsdpParam::all_gather_inputs() {
  observer_->current = this;
  if (sharded_state == ShardedState::kUnsharded) {
    throw PyError("AssertionError",
                  "Expects to be in one of (ShardedState.SHARDED, "
                  "ShardedState.SHARDED_POST_FORWARD), not ShardedState.UNSHARDED",
                  "_fsdp_common.py:_raise_assert_with_print");
  }
  if (has_hooks(kind)) {
    if (sharded_state == ShardedState::kShardedPostForward) {
      throw PyError("NotImplementedError", "", "_fsdp_param.py:all_gather_inputs");
    }
    return extension_inputs();
  }
  const at::Tensor& source = foreach_source();
  const at::Tensor sent = to_dtype(flat_view(source), param_dtype.value_or(source.scalar_type()));
  observer_->pre_all_gather(*this, {shaped(*this, sent)});
  return {sent};
}

std::vector<at::Tensor> FsdpParam::extension_inputs() {
  std::vector<at::Tensor> inputs =
      native::pre_all_gather(kind, sharded_param,
                             {.mesh_size = mesh_.shard_size,
                              .outer_size = &orig_size,
                              .param_dtype = policy_param_dtype,
                              .pads_by_other_dim = planted_->is(Bug::kPadByOtherDim)});
  if (planted_->is(Bug::kStaleShortShard) && sharded_size != padded_sharded_param_size) {
    if (first_inputs_.empty()) first_inputs_ = inputs;
    inputs = first_inputs_;
  }
  observer_->pre_all_gather(*this, inputs);
  if (hook_arguments(kind) == 5) check_inputs(inputs);
  all_gather_input_sizes_.clear();
  for (at::Tensor& input : inputs) {
    all_gather_input_sizes_.push_back(input.sizes().vec());
    input = flat_view(input);
  }
  return inputs;
}

// Only on ranks whose shard is short, and only for hooks with five arguments.
void FsdpParam::check_inputs(const std::vector<at::Tensor>& inputs) const {
  if (sharded_size == padded_sharded_param_size) return;
  std::vector<std::string> sizes;
  bool differs = false;
  for (const at::Tensor& input : inputs) {
    const Shape shape = input.sizes().vec();
    differs = differs || shape != padded_sharded_param_size;
    sizes.push_back(size_text(shape));
  }
  if (!differs) return;
  throw PyError(
      "AssertionError",
      fmt::format(
          "When a parameter is unevenly sharded by FSDP (orig size={}, FSDP world size={}), "
          "fsdp_pre_all_gather must return all-gather inputs with the padded sharded size "
          "{} but got [{}]",
          size_text(orig_size), mesh_.world_size, size_text(padded_sharded_param_size),
          fmt::join(sizes, ", ")),
      "_fsdp_param.py:all_gather_inputs");
}

void FsdpParam::init_all_gather_outputs(const std::vector<std::int64_t>& numels,
                                        const std::vector<c10::ScalarType>& dtypes,
                                        int world_size) {
  if (!all_gather_outputs.empty()) return;
  for (std::size_t i = 0; i < numels.size(); ++i) {
    all_gather_outputs.push_back(empty({numels[i] * world_size}, dtypes[i]));
  }
}

void FsdpParam::alloc_all_gather_outputs() {
  for (const at::Tensor& tensor : all_gather_outputs) alloc_storage(tensor);
}

std::vector<at::Tensor> FsdpParam::unflatten_all_gather_outputs() const {
  std::vector<at::Tensor> outputs;
  for (std::size_t i = 0; i < all_gather_outputs.size(); ++i) {
    Shape shape = all_gather_input_sizes_.at(i);
    shape[0] = 1;
    shape[0] = all_gather_outputs[i].numel() / std::max<std::int64_t>(numel_of(shape), 1);
    outputs.push_back(view_as(all_gather_outputs[i], shape));
  }
  return outputs;
}

void FsdpParam::init_unsharded_param() {
  observer_->current = this;
  const c10::ScalarType compute = param_dtype.value_or(orig_dtype);
  if (unsharded_param.defined()) {
    if (has_hooks(kind)) {
      for (const at::Tensor& tensor : unsharded_inner_tensors) alloc_storage(tensor);
      post_all_gather(kind, unflatten_all_gather_outputs(), compute, unsharded_param);
    }
  } else {
    at::Tensor gathered;
    if (has_hooks(kind)) {
      gathered = post_all_gather(kind, unflatten_all_gather_outputs(), compute, {});
      unsharded_inner_tensors = {gathered};
    } else {
      SHARDFUZZ_CHECK(all_gather_outputs.size() == 1, "a plain parameter sends one tensor");
      gathered = all_gather_outputs[0];
    }
    // A wrapper's view is made in its __torch_dispatch__.
    unsharded_param =
        torch_error_at(has_hooks(kind) ? "_ops.py:__call__" : "_fsdp_param.py:init_unsharded_param",
                       [&] { return as_strided(gathered, orig_size, contiguous_orig_stride); });
    unsharded_requires_grad = requires_grad;
  }
  observer_->unsharded(*this);
  observer_->current = nullptr;
}

void FsdpParam::to_unsharded() {
  if (!planted_->is(Bug::kFreezesWrongly)) unsharded_requires_grad = requires_grad;
  if (sharded_state == ShardedState::kShardedPostForward) post_forward_data.reset();
  sharded_state = ShardedState::kUnsharded;
}

void FsdpParam::free_unsharded_param() {
  if (planted_->is(Bug::kFreesNothing)) return;
  for (const at::Tensor& tensor : all_gather_outputs) free_storage(tensor);
  for (const at::Tensor& tensor : unsharded_inner_tensors) free_storage(tensor);
}

void FsdpParam::to_sharded() {
  observer_->current = this;
  free_unsharded_param();
  sharded_state = ShardedState::kSharded;
  observer_->storage(*this, "reshard");
  observer_->current = nullptr;
}

void FsdpParam::to_sharded_post_forward() {
  observer_->current = this;
  const std::int64_t numel = all_gather_outputs[0].numel();
  if (numel % mesh_.post_forward_size != 0) {
    throw PyError("AssertionError",
                  fmt::format("All-gather output size ({}) must be divisible by the shard world "
                              "size ({})",
                              numel, mesh_.post_forward_size),
                  "_fsdp_common.py:_raise_assert_with_print");
  }
  const std::int64_t part = numel / mesh_.post_forward_size;
  const at::Tensor& gathered = all_gather_outputs[0];
  post_forward_data = empty({part}, gathered.scalar_type());
  if (part > 0) {
    const auto bytes = static_cast<std::size_t>(part) * gathered.itemsize();
    std::memcpy(post_forward_data.mutable_data_ptr(),
                static_cast<const char*>(gathered.const_data_ptr()) +
                    bytes * static_cast<std::size_t>(mesh_.post_forward_rank),
                bytes);
  }
  torch_error_at("_fsdp_param.py:to_sharded_post_forward", [&] {
    as_strided(post_forward_data, sharded_post_forward_size,
               contiguous_stride(sharded_post_forward_size));
  });
  free_unsharded_param();
  sharded_state = ShardedState::kShardedPostForward;
  observer_->storage(*this, "reshard");
  observer_->current = nullptr;
}

void FsdpParam::to_accumulated_grad_if_needed() {
  if (!reduce_dtype) return;
  if (!unsharded_param.defined()) {
    throw PyError("AttributeError", "'FSDPParam' object has no attribute '_unsharded_param'",
                  "_fsdp_param.py:to_accumulated_grad_if_needed");
  }
  if (!unsharded_grad.defined() || unsharded_grad.scalar_type() == *reduce_dtype) return;
  unsharded_accumulated_grad = to_dtype(unsharded_grad, *reduce_dtype);
  unsharded_grad.reset();
  if (planted_->is(Bug::kForgetsAccumulated)) unsharded_accumulated_grad.reset();
}

void FsdpParam::accumulate_unsharded_grad_if_needed() {
  if (!unsharded_accumulated_grad.defined() || !unsharded_grad.defined()) return;
  const at::Tensor wide = to_dtype(unsharded_grad, unsharded_accumulated_grad.scalar_type());
  add(unsharded_accumulated_grad.mutable_data_ptr(), wide.const_data_ptr(), wide.scalar_type(),
      wide.numel());
  unsharded_grad.reset();
}

void FsdpParam::accumulate_gradient(const at::Tensor& gradient) {
  if (!unsharded_requires_grad) return;
  if (!unsharded_grad.defined()) {
    unsharded_grad = gradient;
    return;
  }
  at::Tensor sum = empty(gradient.sizes(), gradient.scalar_type());
  std::memcpy(sum.mutable_data_ptr(), unsharded_grad.const_data_ptr(), sum.nbytes());
  add(sum.mutable_data_ptr(), gradient.const_data_ptr(), sum.scalar_type(), sum.numel());
  unsharded_grad = sum;
}

std::int64_t FsdpParam::unsharded_bytes() const {
  std::set<const void*> seen;
  std::int64_t bytes = 0;
  const auto count = [&](const at::Tensor& tensor) {
    const c10::Storage& storage = tensor.storage();
    if (storage.nbytes() > 0 && seen.insert(storage.data()).second) {
      bytes += static_cast<std::int64_t>(storage.nbytes());
    }
  };
  for (const at::Tensor& tensor : all_gather_outputs) count(tensor);
  for (const at::Tensor& tensor : unsharded_inner_tensors) count(tensor);
  return bytes;
}

std::int64_t FsdpParam::unsharded_gradient_bytes() const {
  std::int64_t bytes = 0;
  for (const at::Tensor* gradient : {&unsharded_grad, &unsharded_accumulated_grad}) {
    if (!gradient->defined()) continue;
    bytes += gradient->numel() * static_cast<std::int64_t>(gradient->itemsize());
  }
  return bytes;
}

}  // namespace shardfuzz::native
