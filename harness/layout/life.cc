#include "harness/layout/life.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace shardfuzz::layout {
namespace {

enum class Held { kSharded, kUnsharded, kPostForward };

// The output of a reduction, with who holds it.
struct ReduceOutput {
  std::int64_t bytes = 0;
  bool in_use = true;              // its reduction is not over
  bool is_kept = false;            // until the end of backward, after an all-reduce
  bool is_partial = false;         // the all-reduce is owed
  std::vector<bool> of_gradients;  // by parameter: the gradient lies in it

  [[nodiscard]] bool is_alive() const {
    return in_use || is_kept || is_partial ||
           std::find(of_gradients.begin(), of_gradients.end(), true) != of_gradients.end();
  }
};

class Simulation {
 public:
  explicit Simulation(const LifeModel& model) : model_(model), state_(model.groups.size()) {
    for (std::size_t g = 0; g < model.groups.size(); ++g) {
      for (const LifeParam& param : model.groups[g].params) {
        state_[g].trainable.push_back(param.trainable);
        state_[g].pending.push_back(false);
        state_[g].has_gradient.push_back(false);
      }
    }
  }

  Life::AfterOperation apply(const Operation& operation) {
    now_ = {};
    if (predicted_) run(operation);
    now_.predicted = predicted_;
    for (std::size_t g = 0; g < state_.size(); ++g) {
      now_.unsharded_bytes.push_back(unsharded_bytes(g));
      now_.post_forward_bytes.push_back(post_forward_bytes(g));
      now_.gradient_bytes.push_back(gradient_bytes(g));
      now_.buffers.gather_output += state_[g].gather_output;
      for (const ReduceOutput& output : state_[g].outputs) {
        now_.buffers.reduce_output += output.bytes;
      }
    }
    now_.buffers.gather_output += forward_gather_output_;
    now_.buffers.reduce_input = reduce_input_;
    return now_;
  }

 private:
  struct GroupState {
    Held held = Held::kSharded;
    bool gather_pending = false;  // launched, not waited for
    bool gather_is_async = false;
    std::int64_t gather_output = 0;  // of the pending gather
    std::vector<bool> trainable;
    std::vector<bool> pending;       // an unreduced gradient is kept
    std::vector<bool> has_gradient;  // the sharded one
    std::vector<ReduceOutput> outputs;
  };

  void run(const Operation& operation) {
    const auto group = static_cast<std::size_t>(operation.group < 0 ? 0 : operation.group);
    const auto param = static_cast<std::size_t>(operation.param < 0 ? 0 : operation.param);
    switch (operation.step) {
      case Step::kForward: return forward();
      case Step::kBackward: return backward();
      case Step::kUnshard: return unshard(operation, group);
      case Step::kWaitUnshard: return wait_gather(group);
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
      case Step::kZeroGrad: return zero_grad();
      case Step::kOther: return;
    }
  }

  void forward() {
    if (forward_done_) {  // a second forward before backward
      predicted_ = false;
      return;
    }
    forward_done_ = true;
    const bool in_forward = true;
    gather(0, in_forward);
    for (std::size_t g = 1; g < state_.size(); ++g) {
      if (!model_.groups[g].is_used) continue;
      gather(g, in_forward);
      reshard_after_forward(g);
    }
    reshard_after_forward(0);
    forward_gather_output_ = 0;
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
      if (i + 1 < order.size()) launch_gather(order[i + 1]);  // prefetch
      if (order[i] != 0) after_backward(order[i]);            // the root's end comes last
    }
    if (!model_.groups[0].params.empty()) after_backward(0);
    // The final callback also ends groups that did not run, and drops gathers nobody waited for.
    for (GroupState& state : state_) {
      state.gather_pending = false;
      state.gather_output = 0;
      for (ReduceOutput& output : state.outputs) output.is_kept = false;
      drop_dead_outputs(state);
      if (reshard_after_backward_ && state.held == Held::kUnsharded) state.held = Held::kSharded;
    }
    reduce_input_ = 0;
  }

  void after_backward(std::size_t g) {
    GroupState& state = state_[g];
    if (reshard_after_backward_) state.held = Held::kSharded;
    std::int64_t numel = 0;
    std::vector<std::size_t> reduced;
    for (std::size_t p = 0; p < state.trainable.size(); ++p) {
      const LifeParam& param = model_.groups[g].params[p];
      if (!param.owns_gradient) continue;
      if (state.trainable[p] || state.pending[p]) {
        reduced.push_back(p);
        numel += param.reduce_numel;
        state.pending[p] = !sync_;
      }
    }
    if (!reduced.empty() && sync_) reduce(g, numel * model_.groups[g].reduce_item_bytes, reduced);
  }

  // What is sent counts as a buffer; a shard group of one rank sends nothing, so that its reduction
  // shows in an all-reduce alone.
  void reduce(std::size_t g, std::int64_t bytes, const std::vector<std::size_t>& params) {
    GroupState& state = state_[g];
    const bool scatters = model_.shard_ranks > 1;
    reduce_input_ = 0;
    for (ReduceOutput& output : state.outputs) output.is_kept = false;
    drop_dead_outputs(state);
    if (scatters) reduce_input_ = bytes * model_.shard_ranks;
    state.outputs.push_back(
        {.bytes = scatters ? bytes : 0, .of_gradients = std::vector<bool>(state.trainable.size())});
    if (scatters) note("shard", "reduce_scatter", bytes, g);
    if (model_.has_replicas) {
      if (!all_reduce_) return owe_all_reduce(state);
      state.outputs.back().bytes = bytes;
      note("replicate", "all_reduce", bytes, g);
      for (ReduceOutput& output : state.outputs) output.is_partial = false;
      state.outputs.back().is_kept = true;
    }
    for (const std::size_t p : params) {
      if (state.has_gradient[p]) continue;  // it is added to
      state.has_gradient[p] = true;
      state.outputs.back().of_gradients[p] = !model_.groups[g].casts_reduced;
    }
    state.outputs.back().in_use = false;
    drop_dead_outputs(state);
  }

  // The last output is added to the sum that is owed, or is its beginning.
  static void owe_all_reduce(GroupState& state) {
    const bool is_first = std::none_of(state.outputs.begin(), state.outputs.end(),
                                       [](const auto& output) { return output.is_partial; });
    state.outputs.back().is_partial = is_first;
    state.outputs.back().in_use = false;
    drop_dead_outputs(state);
  }

  static void drop_dead_outputs(GroupState& state) {
    std::erase_if(state.outputs, [](const ReduceOutput& output) { return !output.is_alive(); });
  }

  void zero_grad() {
    for (GroupState& state : state_) {
      std::fill(state.has_gradient.begin(), state.has_gradient.end(), false);
      for (ReduceOutput& output : state.outputs) output.of_gradients.clear();
      drop_dead_outputs(state);
    }
  }

  void gather(std::size_t g, bool in_forward = false) {
    launch_gather(g);
    wait_gather(g, in_forward);
  }

  // A shard group of one rank does all of it at the wait.
  void launch_gather(std::size_t g, bool is_async = false) {
    GroupState& state = state_[g];
    if (state.held == Held::kUnsharded || state.gather_pending) return;
    if (model_.groups[g].params.empty()) return;
    state.gather_pending = true;
    state.gather_is_async = is_async;
    if (model_.shard_ranks > 1) note_gather(g);
  }

  // A wait for what another has waited for already does nothing.
  void wait_gather(std::size_t g, bool in_forward = false) {
    GroupState& state = state_[g];
    if (!std::exchange(state.gather_pending, false)) return;
    if (in_forward) forward_gather_output_ = 0;
    if (model_.shard_ranks == 1) note_gather(g);
    state.held = Held::kUnsharded;
    const std::int64_t output = std::exchange(state.gather_output, 0);
    if (in_forward && !state.gather_is_async) forward_gather_output_ = output;
  }

  void note_gather(std::size_t g) {
    GroupState& state = state_[g];
    const LifeGroup& group = model_.groups[g];
    std::int64_t bytes = 0;
    for (const LifeParam& param : group.params) {
      bytes += param.gather_bytes;
      if (param.hook_reduce_bytes > 0 && state.held == Held::kSharded) {
        hook_buffer_ = param.hook_reduce_bytes;
        note("shard", "all_reduce", param.hook_reduce_bytes, g);
        hook_buffer_ = 0;
      }
    }
    if (model_.shard_ranks == 1) return;
    state.gather_output = bytes * model_.shard_ranks;
    if (state.held == Held::kPostForward) {
      note("post_forward", "all_gather", bytes * model_.shard_ranks / group.reshard_ranks, g);
    } else {
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

  // An async unshard sends at once and holds from the wait on, which may be the next forward's.
  void unshard(const Operation& operation, std::size_t g) {
    launch_gather(g, operation.is_async);
    if (!operation.is_async) wait_gather(g);
  }

  [[nodiscard]] std::int64_t unsharded_bytes(std::size_t g) const {
    if (state_[g].held != Held::kUnsharded) return 0;
    std::int64_t bytes = 0;
    for (const LifeParam& param : model_.groups[g].params) {
      bytes += param.gather_bytes * model_.shard_ranks + param.value_bytes;
    }
    return bytes;
  }

  [[nodiscard]] std::int64_t post_forward_bytes(std::size_t g) const {
    if (state_[g].held != Held::kPostForward) return 0;
    std::int64_t bytes = 0;
    for (const LifeParam& param : model_.groups[g].params) {
      bytes += param.gather_bytes * model_.shard_ranks / model_.groups[g].reshard_ranks;
    }
    return bytes;
  }

  [[nodiscard]] std::int64_t gradient_bytes(std::size_t g) const {
    std::int64_t bytes = 0;
    for (std::size_t p = 0; p < state_[g].pending.size(); ++p) {
      if (state_[g].pending[p]) bytes += model_.groups[g].params[p].gradient_bytes;
    }
    return bytes;
  }

  [[nodiscard]] std::int64_t held_bytes() const {
    std::int64_t bytes = forward_gather_output_ + reduce_input_ + hook_buffer_;
    for (std::size_t g = 0; g < state_.size(); ++g) {
      bytes += unsharded_bytes(g) + state_[g].gather_output;
      for (const ReduceOutput& output : state_[g].outputs) bytes += output.bytes;
    }
    return bytes;
  }

  void note(const char* process_group, const char* kind, std::int64_t bytes, std::size_t g) {
    if (bytes == 0) return;  // nothing to send: NCCL and the simulation drop it
    now_.collectives.push_back({.process_group = process_group,
                                .kind = kind,
                                .bytes = bytes,
                                .group = static_cast<int>(g)});
    now_.buffers.peak = std::max(now_.buffers.peak, held_bytes());
  }

  const LifeModel& model_;
  std::vector<GroupState> state_;
  Life::AfterOperation now_;
  std::int64_t forward_gather_output_ = 0;  // kept until the next forward gather is copied out
  std::int64_t reduce_input_ = 0;           // kept until the next reduction
  std::int64_t hook_buffer_ = 0;            // of the all-reduce that a hook is issuing
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
