// FsdpParamGroup: the parameters of one fully_shard call on one rank, gathered and reduced
// together.
//
// Follows torch 2.11 _fsdp_param_group.py, class FSDPParamGroup, and _fsdp_state.py for the order
// in which the hooks of a root and its nested modules run (fsdp_state.h). Streams and events are
// left out: on the simulated process group a wait is complete or parks the rank.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "harness/native/fsdp_collectives.h"
#include "harness/native/fsdp_param.h"

namespace shardfuzz::native {

enum class TrainingState { kIdle, kForward, kPreBackward, kPostBackward };

class FsdpParamGroup;

// Shared by all groups of one root (FSDPCommContext, FSDPStateContext).
struct CommContext {
  std::vector<FsdpParamGroup*> post_forward_order;
  // Kept alive beyond their use, since the copies on another stream may not be over: the last
  // forward gather's result, until the next wait or the root's end of forward; the last
  // reduce-scatter's input, until the next one or the end of backward.
  std::optional<AllGatherResult> all_gather_state;
  at::Tensor reduce_scatter_state;
};

class FsdpParamGroup {
 public:
  FsdpParamGroup(const GroupSpec& spec, Comm* comm, CommContext* context, Observer* observer,
                 const Planted& planted);

  void lazy_init();
  void unshard(bool async_op);
  void wait_for_unshard();
  void reshard();
  void pre_forward();
  void post_forward();
  void pre_backward(bool default_prefetch);
  void post_backward();
  void finalize_backward();
  void state_dict_hook();  // nothing before the first lazy_init
  // FSDPParamGroup._prefetch_unshard
  static void prefetch_unshard(FsdpParamGroup& target, TrainingState state);

  const GroupSpec* spec_;
  std::vector<std::unique_ptr<FsdpParam>> params;
  TrainingState training_state = TrainingState::kIdle;
  bool reshard_after_forward = true;  // post_forward_mesh_info is set
  GroupName post_forward_group;       // of a smaller mesh; 0 ranks: the same
  bool reduce_grads = true, all_reduce_grads = true, reshard_after_backward = true;
  bool unshard_async_op = false;

 private:
  void init_mp_dtypes();
  [[nodiscard]] const GroupName& all_gather_group() const;
  [[nodiscard]] int all_gather_size() const;
  void copy_own_shard();
  void to_sharded();
  void to_sharded_post_forward();
  void record_post_forward();
  void backward_prefetch();
  void reduce();

  Comm* comm_;
  CommContext* context_;
  Observer* observer_;
  const Planted* planted_;
  ShardedState sharded_state_ = ShardedState::kSharded;
  bool reset_sharded_params_ = false;
  bool has_state_dict_hooks_ = false;
  std::optional<c10::ScalarType> orig_dtype_, reduce_dtype_;
  std::optional<AllGatherResult> all_gather_result_;
  std::vector<int> post_forward_indices_;
  at::Tensor partial_reduce_output_;
  at::Tensor all_reduce_state_;  // the last all-reduce's buffer, until the next post-backward's
};

}  // namespace shardfuzz::native
