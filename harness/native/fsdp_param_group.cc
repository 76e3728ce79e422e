#include "harness/native/fsdp_param_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <set>
#include <utility>

#include "harness/base/check.h"
#include "harness/native/numbers.h"
#include "harness/native/py_error.h"
#include "harness/native/stuck.h"

namespace shardfuzz::native {

FsdpParamGroup::FsdpParamGroup(const GroupSpec& spec, Comm* comm, CommContext* context,
                               Observer* observer, const Planted& planted)
    : spec_(&spec), comm_(comm), context_(context), observer_(observer), planted_(&planted) {}

void FsdpParamGroup::init_mp_dtypes() {
  std::set<std::string> names;
  orig_dtype_.reset();
  reduce_dtype_.reset();
  for (const auto& param : params) {
    param->init_dtype_attrs(spec_->mixed_precision);
    if (!param->requires_grad) continue;
    names.insert(std::string("torch.") + dtype_name(param->orig_dtype));
    if (!orig_dtype_) reduce_dtype_ = param->reduce_dtype;
    orig_dtype_ = param->orig_dtype;
  }
  if (names.size() <= 1) return;
  throw PyError("AssertionError",
                fmt::format("FSDP expects uniform original parameter dtype but got {{{}}}",
                            fmt::join(names, ", ")),
                "_fsdp_param_group.py:_init_mp_dtypes");
}

void FsdpParamGroup::lazy_init() {
  if (sharded_state_ == ShardedState::kSharded && !reset_sharded_params_) {
    for (const auto& param : params) param->reset_sharded_param();
    reset_sharded_params_ = true;
  }
  init_mp_dtypes();
  has_state_dict_hooks_ = true;
}

const GroupName& FsdpParamGroup::all_gather_group() const {
  return sharded_state_ == ShardedState::kShardedPostForward ? post_forward_group : kShardGroup;
}

int FsdpParamGroup::all_gather_size() const { return comm_->size(all_gather_group()); }

void FsdpParamGroup::unshard(bool async_op) {
  if (all_gather_result_) return;
  if (sharded_state_ == ShardedState::kUnsharded) return;
  if (all_gather_size() == 1) {
    all_gather_result_.emplace();
    return;
  }
  all_gather_result_ =
      foreach_all_gather(params, *comm_, all_gather_group(), async_op, *observer_, *planted_);
}

// A world of one rank sends nothing: each unsharded parameter is a copy of the shard.
void FsdpParamGroup::copy_own_shard() {
  for (const auto& param : params) {
    const at::Tensor input = param->all_gather_inputs()[0];
    param->init_all_gather_outputs({input.numel()}, {input.scalar_type()}, 1);
    const at::Tensor& output = param->all_gather_outputs[0];
    alloc_storage(output);
    convert(output.data_ptr(), output.scalar_type(), input.const_data_ptr(), input.scalar_type(),
            input.numel());
  }
}

void FsdpParamGroup::wait_for_unshard() {
  if (!all_gather_result_) return;
  const int world_size = all_gather_size();
  const bool async_op = all_gather_result_->work != nullptr;
  if (training_state == TrainingState::kForward) context_->all_gather_state.reset();
  if (world_size == 1) {
    copy_own_shard();
  } else {
    foreach_all_gather_copy_out(*all_gather_result_, params, world_size, *planted_);
  }
  for (const auto& param : params) param->init_unsharded_param();
  if (sharded_state_ != ShardedState::kUnsharded) {
    for (const auto& param : params) param->to_unsharded();
    sharded_state_ = ShardedState::kUnsharded;
  }
  if (!async_op && training_state == TrainingState::kForward && world_size > 1) {
    context_->all_gather_state = std::move(all_gather_result_);
  }
  all_gather_result_.reset();
}

void FsdpParamGroup::reshard() {
  if (training_state == TrainingState::kForward) {
    if (!reshard_after_forward) return;
    if (post_forward_group.ranks > 0) {
      to_sharded_post_forward();
      return;
    }
  }
  to_sharded();
}

void FsdpParamGroup::to_sharded() {
  if (sharded_state_ == ShardedState::kSharded) return;
  const std::size_t forgotten = planted_->is(Bug::kReshardForgetsLast) && params.size() > 1 ? 1 : 0;
  for (std::size_t i = 0; i + forgotten < params.size(); ++i) params[i]->to_sharded();
  if (forgotten > 0) params.back()->sharded_state = ShardedState::kSharded;
  sharded_state_ = ShardedState::kSharded;
}

void FsdpParamGroup::to_sharded_post_forward() {
  if (sharded_state_ == ShardedState::kShardedPostForward) return;
  for (const auto& param : params) param->to_sharded_post_forward();
  sharded_state_ = ShardedState::kShardedPostForward;
}

void FsdpParamGroup::pre_forward() {
  training_state = TrainingState::kForward;
  unshard(unshard_async_op);
  wait_for_unshard();
}

void FsdpParamGroup::post_forward() {
  reshard();
  record_post_forward();
  training_state = TrainingState::kIdle;
}

void FsdpParamGroup::record_post_forward() {
  post_forward_indices_.push_back(static_cast<int>(context_->post_forward_order.size()));
  context_->post_forward_order.push_back(this);
}

void FsdpParamGroup::pre_backward(bool default_prefetch) {
  if (training_state == TrainingState::kPreBackward) return;
  training_state = TrainingState::kPreBackward;
  unshard(unshard_async_op);
  wait_for_unshard();
  if (default_prefetch) backward_prefetch();
}

void FsdpParamGroup::backward_prefetch() {
  if (post_forward_indices_.empty()) return;
  const int target = post_forward_indices_.back() - 1;
  post_forward_indices_.pop_back();
  if (target < 0) return;
  prefetch_unshard(*context_->post_forward_order.at(static_cast<std::size_t>(target)),
                   TrainingState::kPreBackward);
}

void FsdpParamGroup::prefetch_unshard(FsdpParamGroup& target, TrainingState state) {
  const TrainingState before = std::exchange(target.training_state, state);
  try {
    target.unshard(target.unshard_async_op);
  } catch (...) {
    target.training_state = before;
    throw;
  }
  target.training_state = before;
}

void FsdpParamGroup::post_backward() {
  training_state = TrainingState::kPostBackward;
  for (const auto& param : params) param->accumulate_unsharded_grad_if_needed();
  if (!reduce_grads) {
    if (reshard_after_backward) reshard();
    for (const auto& param : params) param->to_accumulated_grad_if_needed();
    return;
  }
  reduce();
}

void FsdpParamGroup::reduce() {
  std::vector<FsdpParam*> with_grad;
  std::vector<at::Tensor> gradients;
  for (const auto& param : params) {
    if (!param->unsharded_param.defined()) continue;
    at::Tensor& accumulated = param->unsharded_accumulated_grad;
    at::Tensor& gradient = accumulated.defined() ? accumulated : param->unsharded_grad;
    if (!gradient.defined()) continue;
    with_grad.push_back(param.get());
    gradients.push_back(std::exchange(gradient, {}));
  }
  if (reshard_after_backward) reshard();
  if (with_grad.empty()) return;
  context_->reduce_scatter_state.reset();
  all_reduce_state_.reset();
  const bool has_replicas = comm_->has_replicas();
  partial_reduce_output_ = foreach_reduce(with_grad, std::move(gradients), *comm_,
                                          {.orig_dtype = orig_dtype_,
                                           .reduce_dtype = reduce_dtype_,
                                           .has_replicas = has_replicas,
                                           .all_reduce_grads = all_reduce_grads},
                                          partial_reduce_output_, *planted_,
                                          {.reduce_scatter_input = &context_->reduce_scatter_state,
                                           .all_reduce_input = &all_reduce_state_});
}

void FsdpParamGroup::finalize_backward() {
  all_reduce_state_.reset();
  if (all_gather_result_) {
    if (all_gather_result_->work) {
      raising_at("_fsdp_param_group.py:finalize_backward",
                 [&] { all_gather_result_->work->wait(); });
    }
    all_gather_result_.reset();
  }
  post_forward_indices_.clear();
}

void FsdpParamGroup::state_dict_hook() {
  if (has_state_dict_hooks_) to_sharded();
}

}  // namespace shardfuzz::native
