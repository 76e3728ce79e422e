#include "fuzz/properties/parameter_life.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "harness/base/check.h"

namespace shardfuzz {
namespace {

// The ranks that an int policy reshards to; 0: it names no smaller mesh.
int smaller_mesh(const GroupSpec& group, int ranks) {
  const int* size = std::get_if<int>(&group.reshard_after_forward);
  return size != nullptr && *size > 1 && *size < ranks ? *size : 0;
}

bool is_reduced_wider(const GroupSpec& group) {
  const MixedPrecision& mixed = group.mixed_precision;
  return mixed.reduce_dtype.has_value() && mixed.reduce_dtype != mixed.param_dtype;
}

bool changes_dtype(const GroupSpec& group, const ParamSpec& param) {
  const MixedPrecision& mixed = group.mixed_precision;
  return mixed.param_dtype.value_or(param.dtype) != param.dtype ||
         mixed.reduce_dtype.value_or(param.dtype) != param.dtype;
}

}  // namespace

bool ParameterLife::is_modelled(const Case& c) {
  const int ranks = c.mesh.shard_size();
  return std::all_of(c.groups.begin(), c.groups.end(), [&](const GroupSpec& group) {
    if (!group.unused_on_ranks.empty() || group.offload_to_cpu) return false;
    return std::all_of(group.params.begin(), group.params.end(), [&](const ParamSpec& param) {
      const bool is_plain = param.pack == "plain";
      const bool is_padded = param.pack == "torchao_moe_fp8" && param.hook == "padded";
      return (is_plain || (is_padded && smaller_mesh(group, ranks) == 0)) && param.shard_dim == 0 &&
             param.tied_to.empty();
    });
  });
}

ParameterLife::ParameterLife(const Case& c)
    : case_(c), ranks_(c.mesh.shard_size()), has_replicas_(c.mesh.shape.size() > 1) {
  SHARDFUZZ_CHECK(is_modelled(c), "this case is not modelled");
  for (const GroupSpec& group : c.groups) {
    GroupLife life;
    if (const bool* reshards = std::get_if<bool>(&group.reshard_after_forward)) {
      life.policy = *reshards ? Policy::kReshards : Policy::kStays;
    } else if (const int* size = std::get_if<int>(&group.reshard_after_forward)) {
      life.policy = *size == 1                        ? Policy::kStays
                    : smaller_mesh(group, ranks_) > 0 ? Policy::kKeepsPart
                                                      : Policy::kReshards;
    } else {
      life.policy = groups_.empty() ? Policy::kStays : Policy::kReshards;  // the root stays
    }
    life.params.resize(group.params.size());
    std::vector<ParamState>& states = states_.emplace_back();
    for (const ParamSpec& param : group.params) {
      states.push_back({.trainable = param.requires_grad, .value = ++last_value_});
    }
    groups_.push_back(std::move(life));
  }
}

std::size_t ParameterLife::index_of(const std::string& group) const {
  for (std::size_t g = 0; g < case_.groups.size(); ++g) {
    if (case_.groups[g].name == group) return g;
  }
  SHARDFUZZ_CHECK(false, "no group {}", group);
}

std::size_t ParameterLife::param_of(const Operation& operation) const {
  const std::vector<ParamSpec>& params = case_.groups[index_of(operation.group)].params;
  for (std::size_t p = 0; p < params.size(); ++p) {
    if (params[p].name == operation.param) return p;
  }
  SHARDFUZZ_CHECK(false, "no parameter {}.{}", operation.group, operation.param);
}

// ---- legal orders -------------------------------------------------------------------------------

bool ParameterLife::is_refused(const Operation& operation) const {
  if (operation.kind == OpKind::kWaitUnshard) return !groups_[index_of(operation.group)].has_handle;
  if (operation.kind == OpKind::kLoad) return !is_saved_;
  return operation.kind == OpKind::kAllReduce && !has_replicas_;
}

// A gather of what an int reshard kept is under way: if the group is resharded now, the copy-out
// takes the parts of the smaller mesh for those of the whole one (wait_for_unshard asks for the
// process group of the state at that time).
bool ParameterLife::is_torn(std::size_t g) const {
  return groups_[g].is_launched && groups_[g].held == Held::kPostForward;
}

std::string ParameterLife::why_not(const Operation& operation) const {
  if (is_refused(operation)) return "the case format refuses it";
  switch (operation.kind) {
    case OpKind::kBackward: return why_no_backward();
    case OpKind::kStep: return why_no_step();
    case OpKind::kLoad: return why_no_load();
    case OpKind::kReshard:
      return is_torn(index_of(operation.group)) ? "a gather of what was kept is under way" : "";
    case OpKind::kSave:
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        if (is_torn(g)) return "a gather of what was kept is under way";
      }
      return "";
    case OpKind::kFreeze:
    case OpKind::kUnfreeze: {
      if (losses_ > 0) return "a loss waits for its backward";
      const GroupLife& group = groups_[index_of(operation.group)];
      return group.held != Held::kSharded || group.is_launched ? "the group is gathered" : "";
    }
    case OpKind::kPrefetchForward:
    case OpKind::kPrefetchBackward:
      return index_of(operation.group) == 0 ? "the root prefetches itself" : "";
    case OpKind::kForward:
    case OpKind::kZeroGrad:
    case OpKind::kUnshard:
    case OpKind::kWaitUnshard:
    case OpKind::kUnshardAsyncOp:
    case OpKind::kGradientSync:
    case OpKind::kReshardAfterBackward:
    case OpKind::kAllReduce:
    case OpKind::kFullTensor: return "";
  }
  SHARDFUZZ_CHECK(false, "no such operation");
}

std::string ParameterLife::why_no_backward() const {
  if (losses_ == 0) return "there is no loss";
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (std::string reason = why_no_reduction(g); !reason.empty()) return reason;
  }
  return "";
}

std::string ParameterLife::why_no_reduction(std::size_t g) const {
  const GroupLife& group = groups_[g];
  std::set<std::size_t> reduced;
  bool widened = false, fresh = false;
  for (std::size_t p = 0; p < group.params.size(); ++p) {
    const bool is_new = states_[g][p].trainable;
    if (is_new || group.params[p].is_pending) reduced.insert(p);
    widened = widened || group.params[p].is_widened;
    fresh = fresh || (is_new && !group.params[p].is_widened);
  }
  // lazy_init saw no trainable parameter, so the group has no reduce dtype and no original dtype.
  for (const std::size_t p : reduced) {
    if (group.is_initialised && !group.knows_dtypes &&
        changes_dtype(case_.groups[g], case_.groups[g].params[p])) {
      return "the group was frozen when it was initialised";
    }
  }
  if (!syncs_) return "";
  // foreach_reduce: "expects uniform gradient dtype".
  if (widened && fresh && is_reduced_wider(case_.groups[g])) {
    return "a parameter was unfrozen while others had gathered gradients";
  }
  // The partial sums of HSDP are one flat tensor without names, to which the next reduction of the
  // group is added (foreach_reduce); without one (post_backward) they stay, though an all-reduce is
  // wanted.
  const bool stays = reduced.empty() && !all_reduces_;
  if (!group.partial.empty() && !stays && reduced != group.partial) {
    return "the partial sums are of other parameters";
  }
  return "";
}

std::string ParameterLife::why_no_step() const {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const auto& states = states_[g];
    const bool changes =
        std::any_of(states.begin(), states.end(), [](const auto& s) { return s.has_gradient; });
    if (!changes) continue;
    if (losses_ > 0) return "a loss waits for its backward";
    if (groups_[g].held != Held::kSharded || groups_[g].is_launched) return "the group is gathered";
  }
  return "";
}

std::string ParameterLife::why_no_load() const {
  if (losses_ > 0) return "a loss waits for its backward";
  for (const GroupLife& group : groups_) {
    if (group.is_launched) return "a gather is under way";
  }
  return "";
}

// ---- one group ----------------------------------------------------------------------------------

void ParameterLife::initialise(std::size_t g) {
  GroupLife& group = groups_[g];
  group.is_initialised = true;
  group.knows_dtypes = std::any_of(states_[g].begin(), states_[g].end(),
                                   [](const ParamState& state) { return state.trainable; });
}

void ParameterLife::send(std::size_t g) {
  GroupLife& group = groups_[g];
  const bool from_part = group.held == Held::kPostForward;
  for (std::size_t p = 0; p < group.params.size(); ++p) {
    if (!from_part) group.params[p].gathered_value = states_[g][p].value;
    states_[g][p].deeds.push_back({.kind = Deed::Kind::kSends,
                                   .value = group.params[p].gathered_value,
                                   .from_post_forward = from_part});
  }
}

void ParameterLife::launch(std::size_t g) {
  GroupLife& group = groups_[g];
  if (group.is_launched || group.held == Held::kUnsharded || group.params.empty()) return;
  group.is_launched = true;
  if (ranks_ > 1) send(g);
}

// A shard group of one rank does everything here.
void ParameterLife::wait(std::size_t g) {
  GroupLife& group = groups_[g];
  if (!std::exchange(group.is_launched, false)) return;
  if (ranks_ == 1) send(g);
  for (std::size_t p = 0; p < group.params.size(); ++p) {
    ParamLife& param = group.params[p];
    const bool trainable = states_[g][p].trainable;
    // The unsharded parameter is seen before requires_grad is carried over to it.
    states_[g][p].deeds.push_back(
        {.kind = Deed::Kind::kGathers,
         .value = param.gathered_value,
         .requires_grad = param.is_made ? param.unsharded_requires_grad : trainable});
    param.is_made = true;
    param.unsharded_requires_grad = trainable;
    if (group.held == Held::kPostForward) param.has_post_forward = false;
  }
  group.held = Held::kUnsharded;
}

void ParameterLife::unshard(std::size_t g) {
  launch(g);
  wait(g);
}

// What an int reshard kept is not let go when the group is resharded altogether:
// FSDPParam.to_sharded leaves it, until the next int reshard writes over it.
void ParameterLife::to_sharded(std::size_t g) {
  GroupLife& group = groups_[g];
  if (std::exchange(group.held, Held::kSharded) == Held::kSharded) return;
  write_bytes();
  for (ParamState& state : states_[g]) {
    state.deeds.push_back(
        {.kind = Deed::Kind::kFrees, .post_forward_bytes = state.post_forward_bytes});
  }
}

void ParameterLife::after_forward(std::size_t g) {
  GroupLife& group = groups_[g];
  if (group.policy == Policy::kStays || group.params.empty()) return;
  if (group.policy == Policy::kReshards) return to_sharded(g);
  group.held = Held::kPostForward;
  for (ParamLife& param : group.params) param.has_post_forward = true;
  write_bytes();
  for (ParamState& state : states_[g]) {
    state.deeds.push_back(
        {.kind = Deed::Kind::kFrees, .post_forward_bytes = state.post_forward_bytes});
  }
}

std::int64_t ParameterLife::gathered_bytes(std::size_t g, std::size_t p) const {
  const ParamSpec& param = case_.groups[g].params[p];
  std::int64_t bytes =
      element_bytes(case_.groups[g].mixed_precision.param_dtype.value_or(param.dtype));
  for (const std::int64_t size : param.shape) bytes *= size;
  // Every rank sends as many rows as the first one has.
  const std::int64_t rows = param.shape[0];
  return bytes / rows * ((rows + ranks_ - 1) / ranks_) * ranks_;
}

void ParameterLife::write_bytes() {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::size_t p = 0; p < groups_[g].params.size(); ++p) {
      const std::int64_t bytes = gathered_bytes(g, p);
      const int parts = smaller_mesh(case_.groups[g], ranks_);
      states_[g][p].unsharded_bytes = groups_[g].held == Held::kUnsharded ? bytes : 0;
      states_[g][p].post_forward_bytes = groups_[g].params[p].has_post_forward ? bytes / parts : 0;
    }
  }
}

// ---- operations ---------------------------------------------------------------------------------

void ParameterLife::apply(const Operation& operation) {
  const std::string reason = why_not(operation);
  SHARDFUZZ_CHECK(reason.empty(), "an operation is not legal: {}", reason);
  reductions_.clear();
  for (auto& group : states_) {
    for (ParamState& state : group) state.deeds.clear();
  }
  const std::size_t g = operation.group.empty() ? 0 : index_of(operation.group);
  switch (operation.kind) {
    case OpKind::kForward: forward(); break;
    case OpKind::kBackward: backward(); break;
    case OpKind::kStep: step(); break;
    case OpKind::kZeroGrad:
      for (auto& group : states_) {
        for (ParamState& state : group) state.has_gradient = false;
      }
      break;
    case OpKind::kUnshard:
      initialise(g);
      launch(g);
      if (operation.flag) groups_[g].has_handle = true;
      if (!operation.flag) wait(g);
      break;
    case OpKind::kWaitUnshard:
      groups_[g].has_handle = false;
      wait(g);
      break;
    case OpKind::kReshard: to_sharded(g); break;
    case OpKind::kSave: save(); break;
    case OpKind::kLoad: load(); break;
    case OpKind::kGradientSync:
    case OpKind::kReshardAfterBackward:
    case OpKind::kAllReduce: set_flag(operation); break;
    case OpKind::kFreeze: states_[g][param_of(operation)].trainable = false; break;
    case OpKind::kUnfreeze: states_[g][param_of(operation)].trainable = true; break;
    case OpKind::kPrefetchForward:  // when a gather is launched is not observed here
    case OpKind::kPrefetchBackward:
    case OpKind::kUnshardAsyncOp:
    case OpKind::kFullTensor: break;
  }
  write_bytes();
}

void ParameterLife::set_flag(const Operation& operation) {
  if (operation.kind == OpKind::kReshardAfterBackward) reshards_ = operation.flag;
  if (operation.kind == OpKind::kGradientSync) syncs_ = operation.flag;
  // set_requires_gradient_sync sets both.
  if (operation.kind != OpKind::kReshardAfterBackward) all_reduces_ = operation.flag;
}

void ParameterLife::forward() {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (!is_root_initialised_) initialise(g);
  }
  is_root_initialised_ = true;
  unshard(0);
  for (std::size_t g = 1; g < groups_.size(); ++g) {
    unshard(g);
    after_forward(g);
  }
  after_forward(0);
  ++losses_;
}

// Which group a gather is prefetched for changes when it is sent, not how often.
void ParameterLife::backward() {
  for (; losses_ > 0; --losses_) {
    unshard(0);
    for (std::size_t g = groups_.size(); g-- > 1;) {
      unshard(g);
      after_backward(g);
    }
    after_backward(0);
  }
}

void ParameterLife::after_backward(std::size_t g) {
  GroupLife& group = groups_[g];
  for (std::size_t p = 0; p < group.params.size(); ++p) {
    if (!states_[g][p].trainable) continue;
    group.params[p].is_pending = true;
  }
  if (reshards_) to_sharded(g);
  if (syncs_) return reduce(g);
  for (ParamLife& param : group.params) {
    param.is_widened = param.is_pending && is_reduced_wider(case_.groups[g]);
  }
}

void ParameterLife::reduce(std::size_t g) {
  GroupLife& group = groups_[g];
  std::set<std::size_t> reduced;
  for (std::size_t p = 0; p < group.params.size(); ++p) {
    group.params[p].is_widened = false;
    if (std::exchange(group.params[p].is_pending, false)) reduced.insert(p);
  }
  if (reduced.empty()) return;
  note_reduction(g, reduced);
  group.partial.clear();
  if (has_replicas_ && !all_reduces_) {
    group.partial = reduced;
    return;
  }
  ++last_gradient_;
  for (const std::size_t p : reduced) {
    states_[g][p].has_gradient = true;
    states_[g][p].gradient_version = last_gradient_;
  }
}

// A shard group of one rank has nothing to scatter; replicas are asked for even where there is one.
void ParameterLife::note_reduction(std::size_t g, const std::set<std::size_t>& reduced) {
  const GroupSpec& spec = case_.groups[g];
  const MixedPrecision& mixed = spec.mixed_precision;
  Reduction reduction{.kind = "reduce_scatter"};
  for (const std::size_t p : reduced) {
    const DType dtype = mixed.param_dtype.value_or(spec.params[p].dtype);
    const std::int64_t count = gathered_bytes(g, p) / element_bytes(dtype) / ranks_;
    reduction.count += count;
    reduction.bytes += count * element_bytes(mixed.reduce_dtype.value_or(dtype));
  }
  if (ranks_ > 1) reductions_.push_back(reduction);
  reduction.kind = "all_reduce";
  if (has_replicas_ && all_reduces_) reductions_.push_back(reduction);
}

void ParameterLife::step() {
  for (auto& group : states_) {
    for (ParamState& state : group) {
      if (state.has_gradient) state.value = ++last_value_;
    }
  }
}

// state_dict and load_state_dict reshard every group first.
void ParameterLife::save() {
  is_saved_ = true;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    to_sharded(g);
    for (std::size_t p = 0; p < groups_[g].params.size(); ++p) {
      groups_[g].params[p].saved_value = states_[g][p].value;
    }
  }
}

void ParameterLife::load() {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    to_sharded(g);
    for (std::size_t p = 0; p < groups_[g].params.size(); ++p) {
      states_[g][p].value = groups_[g].params[p].saved_value;
    }
  }
}

}  // namespace shardfuzz
