#include "harness/native/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "harness/base/check.h"
#include "harness/case/case_names.h"
#include "harness/native/numbers.h"
#include "harness/native/py_error.h"
#include "harness/native/stuck.h"

namespace shardfuzz::native {

at::Tensor copy_of(const at::Tensor& tensor) {
  at::Tensor made = empty(tensor.sizes(), tensor.scalar_type());
  if (made.numel() > 0) {
    std::memcpy(made.mutable_data_ptr(), tensor.const_data_ptr(), made.nbytes());
  }
  return made;
}

RankProgram::RankProgram(const Case& c, int rank, FullData* data, Gradients* gradients, Comm* comm,
                         Observer* observer, const Planted& planted)
    : case_(c),
      rank_(rank),
      data_(data),
      gradients_(gradients),
      comm_(comm),
      observer_(observer),
      planted_(planted) {}

void RankProgram::build() {
  model_ = std::make_unique<FsdpModel>(case_, *data_, comm_, observer_, planted_);
  for (FsdpParam* param : model_->watched()) {
    const std::int64_t real = param->sharded_param.numel();
    const at::Tensor& padded = param->sharded_param_data;
    if (param->shard_dim == 0 && padded.numel() > real) {
      write_tags(static_cast<char*>(padded.mutable_data_ptr()) +
                     real * static_cast<std::int64_t>(padded.itemsize()),
                 padded.scalar_type(), padded.numel() - real);
    }
    observer_->sharded(*param);
  }
}

void RankProgram::run() {
  build();
  const std::vector<Operation> operations = operations_of(case_);
  for (int step = 0; step < case_.steps; ++step) {
    micro_ = 0;
    for (std::size_t number = 0; number < operations.size(); ++number) {
      run_operation(step, static_cast<int>(number), operations[number]);
    }
  }
  observer_->place(case_.steps - 1, -1, "end");
  observer_->record(Finished{});
}

std::size_t RankProgram::state_of(const std::string& group) const {
  for (std::size_t i = 0; i < case_.groups.size(); ++i) {
    if (case_.groups[i].name == group) return i;
  }
  SHARDFUZZ_CHECK(false, "no group {}", group);
}

FsdpParam* RankProgram::param_of(const Operation& operation) const {
  return model_->find(state_of(operation.group), operation.param);
}

void RankProgram::run_operation(int step, int number, const Operation& operation) {
  observer_->place(step, number, std::string(name_of(operation.kind)));
  operate(step, operation);
  observer_->memory();
}

void RankProgram::operate(int step, const Operation& operation) {
  switch (operation.kind) {
    case OpKind::kForward: forward(step); return write_storage("forward");
    case OpKind::kBackward: backward(); return write_storage("backward");
    case OpKind::kStep: step_optimizer(step); return write_storage("step");
    case OpKind::kZeroGrad:
      for (FsdpParam* param : model_->watched()) param->grad.reset();
      return;
    case OpKind::kUnshard: return model_->unshard(state_of(operation.group), operation.flag);
    case OpKind::kWaitUnshard: return model_->wait_unshard(state_of(operation.group));
    case OpKind::kReshard: return model_->reshard(state_of(operation.group));
    case OpKind::kPrefetchForward: model_->forward_prefetch = state_of(operation.group); return;
    case OpKind::kPrefetchBackward: model_->backward_prefetch = state_of(operation.group); return;
    case OpKind::kFreeze: param_of(operation)->requires_grad = false; return;
    case OpKind::kUnfreeze: param_of(operation)->requires_grad = true; return;
    case OpKind::kUnshardAsyncOp:
    case OpKind::kGradientSync:
    case OpKind::kReshardAfterBackward:
    case OpKind::kAllReduce: return set_flags(operation);
    case OpKind::kSave: return save();
    case OpKind::kLoad: return load();
    case OpKind::kFullTensor: return full_tensor(step, *param_of(operation));
  }
  SHARDFUZZ_CHECK(false, "no such operation");
}

void RankProgram::set_flags(const Operation& operation) {
  // All of them are recursive: the root's reach every module.
  const bool is_own = operation.kind == OpKind::kUnshardAsyncOp && state_of(operation.group) != 0;
  for (std::size_t state = 0; state < case_.groups.size(); ++state) {
    FsdpParamGroup* group = model_->group(state);
    if (group == nullptr || (is_own && state != state_of(operation.group))) continue;
    if (operation.kind == OpKind::kUnshardAsyncOp) {
      group->unshard_async_op = operation.flag;
    } else if (operation.kind == OpKind::kGradientSync) {
      group->reduce_grads = group->all_reduce_grads = operation.flag;
    } else if (operation.kind == OpKind::kReshardAfterBackward) {
      group->reshard_after_backward = operation.flag;
    } else {
      group->all_reduce_grads = operation.flag;
    }
  }
}

ByKey RankProgram::local_copies() const {
  ByKey copies;
  for (const FsdpParam* param : model_->watched()) {
    copies[param->key()] = copy_of(param->sharded_param);
  }
  return copies;
}

void RankProgram::forward(int step) {
  ForwardRun run{
      .step = step, .micro = micro_++, .shards = local_copies(), .uses = uses_of(case_, rank_)};
  Loss loss{.forward = forwards.size()};
  bool gives_none = false;  // torchao's wrapper returns None for a grouped_mm without offsets
  for (const Use& use : run.uses) {
    const ParamSpec& param = case_.groups[use.group].params[use.param];
    gives_none =
        gives_none || (param.call == CallPath::kGroupedMmNoOffs && param.pack == "torchao_moe_fp8");
  }
  model_->pre_forward(0);
  use_parameters(0, &run, &loss);
  for (std::size_t state = 1; state < case_.groups.size(); ++state) {
    const auto& unused = case_.groups[state].unused_on_ranks;
    if (std::find(unused.begin(), unused.end(), rank_) != unused.end()) continue;
    model_->pre_forward(state);
    use_parameters(state, &run, &loss);
    model_->post_forward(state);
  }
  if (gives_none) {
    throw PyError("AttributeError", "'NoneType' object has no attribute 'clone'",
                  "module.py:inner");
  }
  model_->post_forward(0);
  forwards.push_back(std::move(run));
  losses_.push_back(std::move(loss));
}

void RankProgram::use_parameters(std::size_t state, ForwardRun* run, Loss* loss) {
  for (const Use& use : run->uses) {
    if (use.group != state) continue;
    const FsdpParam& param = *model_->find(state, case_.groups[state].params[use.param].name);
    run->weights.push_back(copy_of(param.unsharded_param));
    loss->requires_grad.push_back(param.unsharded_requires_grad);
    loss->dtypes.push_back(param.unsharded_param.scalar_type());
  }
}

void RankProgram::backward() {
  const std::vector<Loss> losses = std::exchange(losses_, {});
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (losses.size() > 1) model_->is_last_backward = i + 1 == losses.size();
    backward_of(losses[i]);
  }
  ByKey kept;
  for (const FsdpParam* param : model_->watched()) {
    const bool present = param->grad.defined();
    kept[param->key()] = present ? copy_of(param->grad) : at::Tensor();
    observer_->record(Gradient{.group = param->group_->name,
                               .param = param->spec_->name,
                               .present = present,
                               .type = present ? "Tensor" : "",
                               .dtype = present ? dtype_name(param->grad.scalar_type()) : "",
                               .shape = present ? param->grad.sizes().vec() : Shape(),
                               .digest = present ? digest(kept[param->key()]) : ""});
  }
  sharded_gradients.push_back(std::move(kept));
}

// autograd runs the ready node that was made last first. The root's last nodes copy its outputs, so
// its pre-backward hook comes first; then the modules in reverse order, each with its hook before
// and its RegisterPostBackwardFunction, made when its forward began, after its own nodes; the
// root's own parameters were used before any module's, so they come last. Gradients are accumulated
// as soon as they are there.
void RankProgram::backward_of(const Loss& loss) {
  model_->pre_backward(0);
  std::vector<std::size_t> order;
  for (std::size_t state = case_.groups.size() - 1; state > 0; --state) order.push_back(state);
  const bool is_last_rank = rank_ == case_.mesh.world_size() - 1;
  if (planted_.is(Bug::kOrderSwapped) && is_last_rank) std::reverse(order.begin(), order.end());
  for (const std::size_t state : order) {
    const auto& unused = case_.groups[state].unused_on_ranks;
    if (std::find(unused.begin(), unused.end(), rank_) != unused.end()) continue;
    model_->pre_backward(state);
    add_gradients(state, loss);
    model_->post_backward(state);
  }
  add_gradients(0, loss);
  model_->post_backward(0);
  model_->root_post_backward_final_callback();
}

// The backward of torchao's fp8 product refuses a batch without rows (pytorch#192497).
void RankProgram::check_tokens(const ParamSpec& param) const {
  if (!is_fp8_product(param)) return;
  const auto rows = expert_rows(case_, param, rank_);
  if (std::any_of(rows.begin(), rows.end(), [](std::int64_t count) { return count > 0; })) return;
  throw PyError("RuntimeError",
                fmt::format("Invalid strides/sizes, got [0, 1] for strides and [{}, 0] for sizes",
                            param.shape[1]),
                "fp8_grouped_mm.py:backward");
}

void RankProgram::add_gradients(std::size_t state, const Loss& loss) {
  const ForwardRun& run = forwards[loss.forward];
  for (std::size_t i = run.uses.size(); i-- > 0;) {  // the last call's node runs first
    const Use& use = run.uses[i];
    if (use.group != state) continue;
    check_tokens(case_.groups[state].params[use.param]);
    if (!loss.requires_grad[i]) continue;
    FsdpParam* param = model_->find(state, case_.groups[state].params[use.param].name);
    param->accumulate_gradient(
        gradients_->of(use, {.rank = rank_, .step = run.step, .micro = run.micro}, loss.dtypes[i]));
  }
}

void RankProgram::step_parameter(FsdpParam& param) {
  const std::int64_t count = param.sharded_param.numel();
  const c10::ScalarType dtype = param.sharded_param.scalar_type();
  const float rate = std::ldexp(1.0F, case_.optimizer.lr_log2);
  at::Tensor update = param.grad;
  if (case_.optimizer.kind == OptimizerKind::kSgdMomentum) {
    at::Tensor& buffer = momenta_[&param];
    if (!buffer.defined()) {
      buffer = copy_of(param.grad);
    } else if (count > 0) {
      multiply(buffer.data_ptr(), dtype, count, 0.5);
      add(buffer.data_ptr(), param.grad.const_data_ptr(), dtype, count);
    }
    update = buffer;
  }
  const at::Tensor target =
      planted_.is(Bug::kStepsCopy) ? copy_of(param.sharded_param) : param.sharded_param;
  if (count > 0) add(target.data_ptr(), update.const_data_ptr(), dtype, count, -rate);
}

void RankProgram::step_optimizer(int step) {
  OptimizerRun run{.step = step, .before = local_copies()};
  for (FsdpParam* param : model_->watched()) {
    const auto momentum = momenta_.find(param);
    run.momenta[param->key()] =
        momentum == momenta_.end() ? at::Tensor() : copy_of(momentum->second);
    run.gradients[param->key()] = param->grad.defined() ? copy_of(param->grad) : at::Tensor();
  }
  for (FsdpParam* param : model_->watched()) {
    if (param->grad.defined()) step_parameter(*param);
  }
  for (const FsdpParam* param : model_->watched()) {
    const at::Tensor& after = run.after[param->key()] = copy_of(param->sharded_param);
    observer_->record(Stepped{.group = param->group_->name,
                              .param = param->spec_->name,
                              .optimizer_owns_it = true,
                              .type = type_name(param->kind),
                              .dtype = dtype_name(after.scalar_type()),
                              .requires_grad = param->requires_grad,
                              .digest = digest(after)});
  }
  updates.push_back(std::move(run));
}

// model.state_dict(), whose pre-hooks reshard what lies unsharded.
void RankProgram::save() {
  model_->to_sharded_for_state_dict();
  saved_ = local_copies();
}

// model.load_state_dict(): copies into the shards; FSDPParam's post-hook looks at them again.
void RankProgram::load() {
  if (saved_.empty()) return;
  model_->to_sharded_for_state_dict();
  for (FsdpParam* param : model_->watched()) {
    const at::Tensor& kept = saved_.at(param->key());
    if (kept.numel() > 0) {
      std::memcpy(param->sharded_param.data_ptr(), kept.const_data_ptr(), kept.nbytes());
    }
    param->reset_sharded_param();
  }
  for (const FsdpParam* param : model_->watched()) {
    observer_->record(
        Loaded{.group = param->group_->name,
               .param = param->spec_->name,
               .same_bytes = digest(param->sharded_param) == digest(saved_.at(param->key())),
               .same_type = true});
  }
}

// DTensor.full_tensor(): shards are padded with zeros to the first one's size and gathered in their
// own dtype (torch.distributed.tensor.placement_types.Shard._to_replicate_tensor).
void RankProgram::full_tensor(int step, const FsdpParam& param) {
  const at::Tensor local = copy_of(param.sharded_param);
  FullRun run{.step = step, .key = param.key(), .local = local, .full = local};
  const int ranks = comm_->size(kShardGroup);
  if (ranks > 1) {
    const at::Tensor padded = zeros(param.padded_sharded_param_size, local.scalar_type());
    if (local.numel() > 0) {
      std::memcpy(padded.data_ptr(), local.const_data_ptr(), local.nbytes());
    }
    const at::Tensor gathered = empty({padded.numel() * ranks}, local.scalar_type());
    raising_at("_ops.py:redispatch", [&] {
      comm_->all_gather_coalesced(kShardGroup, buffer_of(gathered), buffer_of(padded))->wait();
    });
    std::vector<at::Tensor> parts;
    const auto dim = static_cast<std::size_t>(param.shard_dim);
    for (int rank = 0; rank < ranks; ++rank) {
      Shape shape = param.orig_size;
      shape[dim] = chunk_of(param.orig_size[dim], ranks, rank).length;
      parts.push_back(as_strided(gathered, shape, contiguous_stride(shape), rank * padded.numel()));
    }
    run.full = cat(parts, param.shard_dim);
  }
  fulls.push_back(std::move(run));
}

void RankProgram::write_storage(const char* at) {
  for (const FsdpParam* param : model_->watched()) observer_->storage(*param, at);
}

}  // namespace shardfuzz::native
