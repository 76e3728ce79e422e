#include "harness/native/observer.h"

#include <algorithm>
#include <cstring>

#include "harness/native/fsdp_param.h"
#include "harness/native/numbers.h"

namespace shardfuzz::native {
namespace {

TensorNote note(const at::Tensor& tensor) {
  return {.shape = tensor.sizes().vec(),
          .dtype = dtype_name(tensor.scalar_type()),
          .bytes = tensor.numel() * static_cast<std::int64_t>(tensor.itemsize()),
          .digest = digest(tensor)};
}

// `length` rows along `dim` from `start`, as one run of elements.
at::Tensor narrow_copy(const at::Tensor& data, std::size_t dim, std::int64_t start,
                       std::int64_t length) {
  Shape shape = data.sizes().vec();
  const std::int64_t size = shape[dim];
  shape[dim] = length;
  if (dim == 0) return rows_of(data, start, length);
  at::Tensor made = empty(shape, data.scalar_type());
  std::int64_t outer = 1, inner = static_cast<std::int64_t>(data.itemsize());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d < dim) outer *= shape[d];
    if (d > dim) inner *= shape[d];
  }
  auto* to = static_cast<char*>(made.mutable_data_ptr());
  const auto* from = static_cast<const char*>(data.const_data_ptr());
  for (std::int64_t o = 0; o < outer && length > 0; ++o) {
    std::memcpy(to + o * length * inner, from + (o * size + start) * inner,
                static_cast<std::size_t>(length * inner));
  }
  return made;
}

// Digest of each shard rank's rows in the gathered data.
std::vector<std::string> slots_of(const FsdpParam& param, const at::Tensor& data) {
  const auto dim = static_cast<std::size_t>(param.shard_dim);
  std::vector<std::string> slots;
  for (int i = 0; i < param.mesh_.shard_size; ++i) {
    const Chunk rows = chunk_of(param.orig_size[dim], param.mesh_.shard_size, i);
    slots.push_back(digest(narrow_copy(data, dim, rows.start, rows.length)));
  }
  return slots;
}

}  // namespace

void Observer::sharded(const FsdpParam& param) {
  record(Sharded{.group = param.group_->name,
                 .param = param.spec_->name,
                 .local_shape = param.sharded_size,
                 .padded_shape = param.padded_sharded_param_size,
                 .local_type = type_name(param.kind),
                 .dtype = dtype_name(param.sharded_param.scalar_type()),
                 .expected_type = type_name(param.kind),
                 .storage_bytes = static_cast<std::int64_t>(param.sharded_param.storage().nbytes()),
                 .requires_grad = param.requires_grad});
}

void Observer::pre_all_gather(FsdpParam& param, const std::vector<at::Tensor>& inputs) {
  const bool post_forward = param.sharded_state == ShardedState::kShardedPostForward;
  const bool casts = param.kind != WeightKind::kOneArgument;
  const c10::ScalarType declared =
      casts ? param.param_dtype.value_or(param.orig_dtype) : param.orig_dtype;
  PreAllGather event{.group = param.group_->name,
                     .param = param.spec_->name,
                     .hook_arguments = hook_arguments(param.kind),
                     .from_post_forward = post_forward};
  for (const at::Tensor& input : inputs) event.inputs.push_back(note(input));
  event.declared.push_back({.shape = param.padded_sharded_param_size,
                            .dtype = dtype_name(declared),
                            .bytes = numel_of(param.padded_sharded_param_size) *
                                     static_cast<std::int64_t>(c10::elementSize(declared))});
  if (!post_forward) {
    const auto dim = static_cast<std::size_t>(param.shard_dim);
    const std::int64_t rows = param.sharded_size[dim];
    const std::int64_t sent = inputs[0].size(param.shard_dim);
    if (sent == rows) {
      event.rows_digest = event.inputs[0].digest;
    } else if (sent > rows) {
      event.rows_digest = digest(narrow_copy(inputs[0], dim, 0, rows));
    }
    event.local_digest = digest(to_dtype(param.sharded_param, inputs[0].scalar_type()));
  }
  record(std::move(event));
}

void Observer::unsharded(const FsdpParam& param) {
  for (const at::Tensor& tensor : param.all_gather_outputs) watch_->add_unsharded(tensor.storage());
  for (const at::Tensor& tensor : param.unsharded_inner_tensors) {
    watch_->add_unsharded(tensor.storage());
  }
  const at::Tensor& data = param.unsharded_param;
  const auto item = static_cast<std::int64_t>(data.itemsize());
  const std::int64_t needed = data.numel() * item;  // contiguous, from offset 0
  const auto held = static_cast<std::int64_t>(data.storage().nbytes());
  Unsharded event{.group = param.group_->name,
                  .param = param.spec_->name,
                  .shape = data.sizes().vec(),
                  .stride = data.strides().vec(),
                  .dtype = dtype_name(data.scalar_type()),
                  .type = type_name(param.kind),
                  .expected_type = type_name(param.kind),
                  .storage_bytes = held,
                  .needed_bytes = needed,
                  .requires_grad = param.unsharded_requires_grad};
  if (held >= needed) {
    event.slots = slots_of(param, data);
    event.tags = count_nans(data.const_data_ptr(), data.scalar_type(), data.numel());
  }
  record(std::move(event));
}

void Observer::storage(const FsdpParam& param, const char* at) {
  record(Storage{.group = param.group_->name,
                 .param = param.spec_->name,
                 .at = at,
                 .unsharded_bytes = param.unsharded_bytes(),
                 .post_forward_bytes =
                     param.post_forward_data.defined()
                         ? static_cast<std::int64_t>(param.post_forward_data.storage().nbytes())
                         : 0,
                 .gradient_bytes = param.unsharded_gradient_bytes()});
}

}  // namespace shardfuzz::native
