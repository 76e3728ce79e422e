#include "harness/native/fsdp_model.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "harness/base/check.h"
#include "harness/base/data_fill.h"
#include "harness/native/numbers.h"

namespace shardfuzz::native {

const at::Tensor& FullData::of(const GroupSpec& group, const ParamSpec& param) {
  const std::string key = param.tied_to.empty() ? group.name + "." + param.name : param.tied_to;
  at::Tensor& made = by_key_[key];
  if (made.defined()) return made;
  const at::Tensor values = empty(param.shape, c10::ScalarType::Float);
  fill_data(static_cast<float*>(values.mutable_data_ptr()), values.numel(), case_.seed, key,
            kWeightRange, case_.batch.values == DataKind::kInteger);
  made = to_dtype(values, scalar_type_of(param.dtype));
  return made;
}

FsdpModel::FsdpModel(const Case& c, FullData& data, Comm* comm, Observer* observer,
                     const Planted& planted)
    : comm_(comm), observer_(observer), groups_(c.groups.size()), auto_reshard_(c.groups.size()) {
  for (std::size_t state = 1; state < c.groups.size(); ++state) {
    fully_shard(c, state, data, planted);
  }
  fully_shard(c, 0, data, planted);
  for (const auto& group : groups_) {
    if (!group) continue;
    for (const auto& param : group->params) watched_.push_back(param.get());
  }
}

void FsdpModel::fully_shard(const Case& c, std::size_t state, FullData& data,
                            const Planted& planted) {
  const GroupSpec& spec = c.groups[state];
  if (spec.params.empty()) return;
  auto group = std::make_unique<FsdpParamGroup>(spec, comm_, &context_, observer_, planted);
  const int shard_size = comm_->size(kShardGroup);
  MeshFacts mesh{.shard_size = shard_size,
                 .shard_rank = comm_->rank(kShardGroup),
                 .world_size = c.mesh.world_size()};
  const bool* flag = std::get_if<bool>(&spec.reshard_after_forward);
  const int* ranks = std::get_if<int>(&spec.reshard_after_forward);
  group->reshard_after_forward = ranks != nullptr ? *ranks > 1 : flag == nullptr || *flag;
  if (ranks != nullptr && *ranks > 1 && *ranks < shard_size) {
    group->post_forward_group = {
        .kind = GroupKind::kPostForward, .ranks = *ranks, .owner = static_cast<int>(state)};
    mesh.post_forward_size = *ranks;
    mesh.post_forward_rank = comm_->rank(group->post_forward_group);
  }
  auto_reshard_[state] = flag == nullptr && ranks == nullptr;
  for (const ParamSpec& param : spec.params) {
    // A parameter that is tied within the group is one; across groups each module cuts its own.
    const std::string first = param.tied_to.substr(param.tied_to.find('.') + 1);
    const bool is_shared =
        !param.tied_to.empty() && param.tied_to.substr(0, param.tied_to.find('.')) == spec.name;
    if (is_shared) {
      by_name_[{state, param.name}] = by_name_.at({state, first});
      continue;
    }
    group->params.push_back(
        std::make_unique<FsdpParam>(spec, param, data.of(spec, param), mesh, planted, observer_));
    by_name_[{state, param.name}] = group->params.back().get();
  }
  groups_[state] = std::move(group);
}

FsdpParam* FsdpModel::find(std::size_t state, const std::string& param) const {
  return by_name_.at({state, param});
}

void FsdpModel::lazy_init() {
  if (is_initialized_) return;
  is_initialized_ = true;
  // The root would be gathered again at once: its automatic policy is to stay unsharded.
  if (groups_[0] && auto_reshard_[0]) {
    groups_[0]->reshard_after_forward = false;
    groups_[0]->post_forward_group.ranks = 0;
  }
  for (const auto& group : groups_) {
    if (group) group->lazy_init();
  }
}

void FsdpModel::pre_forward(std::size_t state) {
  if (state == 0) lazy_init();
  if (groups_[state]) groups_[state]->pre_forward();
  if (state == 0 && forward_prefetch && groups_[*forward_prefetch]) {
    FsdpParamGroup::prefetch_unshard(*groups_[*forward_prefetch], TrainingState::kForward);
  }
}

void FsdpModel::post_forward(std::size_t state) {
  if (groups_[state]) groups_[state]->post_forward();
  if (state == 0) context_.all_gather_state.reset();  // the root ends the forward
}

void FsdpModel::pre_backward(std::size_t state) {
  const bool explicit_prefetch = state == 0 && backward_prefetch.has_value();
  if (groups_[state]) groups_[state]->pre_backward(!explicit_prefetch);
  if (explicit_prefetch && groups_[*backward_prefetch]) {
    FsdpParamGroup::prefetch_unshard(*groups_[*backward_prefetch], TrainingState::kPreBackward);
  }
}

void FsdpModel::post_backward(std::size_t state) {
  if (groups_[state]) groups_[state]->post_backward();
}

void FsdpModel::root_post_backward_final_callback() {
  for (const auto& group : groups_) {
    if (!group) continue;
    if (group->training_state != TrainingState::kPostBackward) group->post_backward();
    group->training_state = TrainingState::kIdle;
    if (is_last_backward) group->finalize_backward();
  }
  if (!is_last_backward) return;
  context_.post_forward_order.clear();
  context_.reduce_scatter_state.reset();
}

void FsdpModel::unshard(std::size_t state, bool async_op) {
  FsdpParamGroup* group = groups_[state].get();
  if (group == nullptr) return;
  group->lazy_init();
  group->unshard(async_op);
  if (!async_op) group->wait_for_unshard();
}

void FsdpModel::wait_unshard(std::size_t state) {
  if (groups_[state]) groups_[state]->wait_for_unshard();
}

void FsdpModel::reshard(std::size_t state) {
  if (groups_[state]) groups_[state]->reshard();
}

void FsdpModel::to_sharded_for_state_dict() {
  for (const auto& group : groups_) {
    if (group) group->state_dict_hook();
  }
}

}  // namespace shardfuzz::native
