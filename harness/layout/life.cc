#include "harness/layout/life.h"

#include <cstddef>
#include <utility>

namespace shardfuzz::layout {
namespace {

enum class Held { kSharded, kUnsharded, kPostForward };

class Simulation {
 public:
  explicit Simulation(const LifeModel& model) : model_(model), state_(model.groups.size()) {
    for (std::size_t g = 0; g < model.groups.size(); ++g) {
      for (const LifeParam& param : model.groups[g].params) {
        state_[g].trainable.push_back(param.trainable);
        state_[g].pending.push_back(false);
      }
    }
  }

  Life::AfterOperation apply(const Operation& operation) {
    now_ = {};
    if (predicted_) run(operation);
    now_.predicted = predicted_;
    for (std::size_t g = 0; g < state_.size(); ++g) {
      now_.unsharded_bytes.push_back(state_[g].held == Held::kUnsharded ? unsharded_bytes(g) : 0);
    }
    return now_;
  }

 private:
  struct GroupState {
    Held held = Held::kSharded;
    bool gather_pending = false;  // launched, not waited for
    std::vector<bool> trainable;
    std::vector<bool> pending;  // an unreduced gradient is kept
  };

  void run(const Operation& operation) {
    const auto group = static_cast<std::size_t>(operation.group < 0 ? 0 : operation.group);
    const auto param = static_cast<std::size_t>(operation.param < 0 ? 0 : operation.param);
    switch (operation.step) {
      case Step::kForward: return forward();
      case Step::kBackward: return backward();
      case Step::kUnshard: return unshard(operation, group);
      case Step::kWaitUnshard: return wait_unshard(group);
      case Step::kReshard: state_[group].held = Held::kSharded; return;
      // set_requires_gradient_sync (_fully_shard.py) sets both.
      case Step::kSyncOn: sync_ = all_reduce_ = true; return;
      case Step::kSyncOff: sync_ = all_reduce_ = false; return;
      case Step::kReshardAfterBackwardOn: reshard_after_backward_ = true; return;
      case Step::kReshardAfterBackwardOff: reshard_after_backward_ = false; return;
      case Step::kAllReduceOn: all_reduce_ = true; return;
      case Step::kAllReduceOff: all_reduce_ = false; return;
      case Step::kFreeze: state_[group].trainable[param] = false; return;
      case Step::kUnfreeze: state_[group].trainable[param] = true; return;
      // The first of its kind changes the order of gathers in ways that are not predicted here; the
      // numbers and bytes stay, but an order is what the ledger is.
      case Step::kPrefetchForward:
      case Step::kPrefetchBackward:
      case Step::kAsyncUnshard: predicted_ = false; return;
      case Step::kStateDict:  // state_dict reshards every group first
        for (GroupState& state : state_) state.held = Held::kSharded;
        return;
      case Step::kOther: return;
    }
  }

  void forward() {
    if (forward_done_) {  // a second forward before backward
      predicted_ = false;
      return;
    }
    forward_done_ = true;
    for (std::size_t g = 0; g < state_.size(); ++g) {
      if (model_.groups[g].is_used) gather(g);
    }
    for (std::size_t g = 1; g < state_.size(); ++g) {
      if (model_.groups[g].is_used) reshard_after_forward(g);
    }
    reshard_after_forward(0);
  }

  // The groups end forward in the order 1, 2, ..., n, 0 and run backward in reverse.
  void backward() {
    if (!forward_done_) {
      predicted_ = false;
      return;
    }
    forward_done_ = false;
    const std::size_t count = state_.size();
    std::vector<std::size_t> order;
    if (!model_.groups[0].params.empty()) order.push_back(0);
    for (std::size_t g = count; g-- > 1;) {
      if (model_.groups[g].is_used && !model_.groups[g].params.empty()) order.push_back(g);
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      gather(order[i]);
      if (i + 1 < order.size()) gather(order[i + 1]);  // prefetch
      if (order[i] != 0) after_backward(order[i]);     // the root's end comes last
    }
    if (!model_.groups[0].params.empty()) after_backward(0);
    // The final callback also ends groups that did not run, and drops gathers nobody waited for.
    for (GroupState& state : state_) {
      state.gather_pending = false;
      if (reshard_after_backward_ && state.held == Held::kUnsharded) state.held = Held::kSharded;
    }
  }

  void after_backward(std::size_t g) {
    GroupState& state = state_[g];
    if (reshard_after_backward_) state.held = Held::kSharded;
    std::int64_t numel = 0;
    bool any = false;
    for (std::size_t p = 0; p < state.trainable.size(); ++p) {
      const LifeParam& param = model_.groups[g].params[p];
      if (!param.owns_gradient) continue;
      if (state.trainable[p] || state.pending[p]) {
        any = true;
        numel += param.reduce_numel;
        state.pending[p] = !sync_;
      }
    }
    if (!any || !sync_) return;
    const std::int64_t bytes = numel * model_.groups[g].reduce_item_bytes;
    if (model_.shard_ranks > 1) note("shard", "reduce_scatter", bytes, g);
    if (model_.has_replicas && all_reduce_) note("replicate", "all_reduce", bytes, g);
  }

  void gather(std::size_t g) {
    GroupState& state = state_[g];
    const LifeGroup& group = model_.groups[g];
    if (state.held == Held::kUnsharded || group.params.empty()) return;
    const bool was_launched = std::exchange(state.gather_pending, false) && model_.shard_ranks > 1;
    if (!was_launched) note_gather(g);
    state.held = Held::kUnsharded;
  }

  void note_gather(std::size_t g) {
    const GroupState& state = state_[g];
    const LifeGroup& group = model_.groups[g];
    std::int64_t bytes = 0;
    for (const LifeParam& param : group.params) {
      bytes += param.gather_bytes;
      if (param.hook_reduce_bytes > 0 && state.held == Held::kSharded) {
        note("shard", "all_reduce", param.hook_reduce_bytes, g);
      }
    }
    if (state.held == Held::kPostForward) {
      if (group.reshard_ranks > 1) {
        note("post_forward", "all_gather", bytes * model_.shard_ranks / group.reshard_ranks, g);
      }
    } else if (model_.shard_ranks > 1) {
      note("shard", "all_gather", bytes, g);
    }
  }

  void reshard_after_forward(std::size_t g) {
    if (model_.groups[g].params.empty()) return;
    switch (model_.groups[g].reshard) {
      case Reshard::kNever: return;
      case Reshard::kAfterForward: state_[g].held = Held::kSharded; return;
      case Reshard::kToSmallerMesh: state_[g].held = Held::kPostForward; return;
    }
  }

  // An async unshard sends at once and holds from the wait on, which may be the next forward's. A
  // shard group of one rank does all of it at the wait.
  void unshard(const Operation& operation, std::size_t g) {
    if (!operation.is_async) return gather(g);
    GroupState& state = state_[g];
    if (state.held == Held::kUnsharded || state.gather_pending) return;
    if (model_.groups[g].params.empty()) return;
    if (model_.shard_ranks > 1) note_gather(g);
    state.gather_pending = true;
  }

  // A wait for what a forward in between has waited for already does nothing.
  void wait_unshard(std::size_t g) {
    if (state_[g].gather_pending) gather(g);
  }

  [[nodiscard]] std::int64_t unsharded_bytes(std::size_t g) const {
    std::int64_t bytes = 0;
    for (const LifeParam& param : model_.groups[g].params) {
      bytes += param.gather_bytes * model_.shard_ranks + param.value_bytes;
    }
    return bytes;
  }

  void note(const char* process_group, const char* kind, std::int64_t bytes, std::size_t g) {
    if (bytes == 0) return;  // nothing to send: NCCL and the simulation drop it
    now_.collectives.push_back({.process_group = process_group,
                                .kind = kind,
                                .bytes = bytes,
                                .group = static_cast<int>(g)});
  }

  const LifeModel& model_;
  std::vector<GroupState> state_;
  Life::AfterOperation now_;
  bool predicted_ = true, forward_done_ = false;
  bool sync_ = true, reshard_after_backward_ = true, all_reduce_ = true;
};

}  // namespace

Life live(const LifeModel& model, const std::vector<Operation>& program) {
  Simulation simulation(model);
  Life life;
  for (const Operation& operation : program) life.operations.push_back(simulation.apply(operation));
  return life;
}

}  // namespace shardfuzz::layout
