// The operations of a generated case: a training loop that makes sense, with things done around it.
//
// Only programs that FSDP2 promises to run: weights are loaded or frozen between a backward and the
// next forward only, a group unsharded by hand is used by a forward before the optimizer steps, and
// parameters kept unsharded after a backward are resharded by a later one.
#include <algorithm>
#include <string>

#include "fuzz/detail/draft.h"

namespace shardfuzz::detail {
namespace {

using Operations = std::vector<Operation>;

Operation make(OpKind kind) { return {.kind = kind}; }
Operation make(OpKind kind, bool flag) { return {.kind = kind, .flag = flag}; }
Operation make(OpKind kind, const std::string& group, bool flag = false) {
  return {.kind = kind, .group = group, .flag = flag};
}

Operations default_loop() {
  return {make(OpKind::kForward), make(OpKind::kBackward), make(OpKind::kStep),
          make(OpKind::kZeroGrad)};
}

// forward and backward several times; `setters` are false before the first and true before the
// last. Without setters every backward communicates.
Operations accumulation(Draft& draft, const std::vector<OpKind>& setters) {
  Operations ops;
  for (const OpKind kind : setters) ops.push_back(make(kind, false));
  const int early = draft.choices.chance(20) ? 2 : 1;
  for (int i = 0; i < early; ++i) {
    ops.push_back(make(OpKind::kForward));
    ops.push_back(make(OpKind::kBackward));
  }
  for (const OpKind kind : setters) ops.push_back(make(kind, true));
  const Operations rest = default_loop();
  ops.insert(ops.end(), rest.begin(), rest.end());
  return ops;
}

Operations odd_loop(Draft& draft) {
  const auto forward = make(OpKind::kForward);
  const auto backward = make(OpKind::kBackward);
  const auto step = make(OpKind::kStep);
  const auto zero_grad = make(OpKind::kZeroGrad);
  switch (draft.choices.below(5)) {
    case 0: return {zero_grad, forward, backward, step};
    case 1: return {forward, backward, step};  // gradients of all steps add up
    case 2: return {forward, backward, zero_grad};
    case 3: return {forward, backward, step, step, zero_grad};
    default: return {forward};  // inference
  }
}

Operations draw_loop(Draft& draft) {
  const bool is_hsdp = draft.c.mesh.shape.size() > 1;
  enum class Loop { kDefault, kNoSync, kAllSync, kKeep, kKeepNoSync, kTwo, kNoAllReduce, kOdd };
  const int accumulate = draft.weight(Feature::kGradientAccumulation, 1);
  const int keep = accumulate * draft.weight(Feature::kReshardAfterBackward, 1);
  const int skip = is_hsdp ? accumulate * draft.weight(Feature::kSkipAllReduce, 30) : 0;
  switch (draft.choices.weighted<Loop>({{72, Loop::kDefault},
                                        {7 * accumulate, Loop::kNoSync},
                                        {3 * accumulate, Loop::kAllSync},
                                        {2 * keep, Loop::kKeep},
                                        {3 * keep, Loop::kKeepNoSync},
                                        {draft.weight(Feature::kTwoForwards, 5), Loop::kTwo},
                                        {skip, Loop::kNoAllReduce},
                                        {draft.weight(Feature::kOddLoops, 7), Loop::kOdd}})) {
    case Loop::kDefault: return default_loop();
    case Loop::kNoSync: return accumulation(draft, {OpKind::kGradientSync});
    case Loop::kAllSync: return accumulation(draft, {});
    case Loop::kKeep: return accumulation(draft, {OpKind::kReshardAfterBackward});
    case Loop::kKeepNoSync:
      return accumulation(draft, {OpKind::kReshardAfterBackward, OpKind::kGradientSync});
    case Loop::kTwo: {
      Operations ops = default_loop();
      ops.insert(ops.begin(), make(OpKind::kForward));
      return ops;
    }
    case Loop::kNoAllReduce: return accumulation(draft, {OpKind::kAllReduce});
    case Loop::kOdd: return odd_loop(draft);
  }
  SHARDFUZZ_CHECK(false, "no such loop");
}

void insert_at(Operations* ops, std::size_t index, const Operations& more) {
  ops->insert(ops->begin() + static_cast<std::ptrdiff_t>(index), more.begin(), more.end());
}

// Places where no loss waits for its backward.
std::vector<std::size_t> quiet_places(const Operations& ops) {
  std::vector<std::size_t> places;
  bool waits = false;
  for (std::size_t i = 0; i <= ops.size(); ++i) {
    if (!waits) places.push_back(i);
    if (i < ops.size() && ops[i].kind == OpKind::kForward) waits = true;
    if (i < ops.size() && ops[i].kind == OpKind::kBackward) waits = false;
  }
  return places;
}

std::vector<std::size_t> forwards_of(const Operations& ops) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind == OpKind::kForward) places.push_back(i);
  }
  return places;
}

// Groups with parameters: others have nothing to unshard.
std::vector<std::string> sharded_groups(const Case& c) {
  std::vector<std::string> names;
  for (const GroupSpec& group : c.groups) {
    if (!group.params.empty()) names.push_back(group.name);
  }
  return names;
}

// "group.param" names one tensor: not the second name of a tied one.
Operation draw_on_param(Draft& draft, OpKind kind) {
  std::vector<Operation> each;
  for (const GroupSpec& group : draft.c.groups) {
    for (const ParamSpec& param : group.params) {
      if (param.tied_to.empty()) {
        each.push_back({.kind = kind, .group = group.name, .param = param.name});
      }
    }
  }
  return draft.choices.pick(each);
}

void add_freeze(Draft& draft, Operations* ops) {
  const auto places = quiet_places(*ops);
  Operation freeze = draw_on_param(draft, OpKind::kFreeze);
  Operation unfreeze = freeze;
  unfreeze.kind = OpKind::kUnfreeze;
  if (draft.choices.chance(30)) std::swap(freeze.kind, unfreeze.kind);
  const std::size_t first = draft.choices.below(static_cast<std::uint32_t>(places.size()));
  if (draft.choices.chance(70)) {
    const auto second =
        first + draft.choices.below(static_cast<std::uint32_t>(places.size() - first));
    insert_at(ops, places[second], {unfreeze});
  }
  insert_at(ops, places[first], {freeze});
}

void add_save_load(Draft& draft, Operations* ops) {
  const auto places = quiet_places(*ops);
  const std::size_t first = draft.choices.below(static_cast<std::uint32_t>(places.size()));
  const auto second =
      first + draft.choices.below(static_cast<std::uint32_t>(places.size() - first));
  insert_at(ops, places[second], {make(OpKind::kLoad)});
  insert_at(ops, places[first], {make(OpKind::kSave)});
}

void add_full_tensor(Draft& draft, Operations* ops) {
  const Operation op = draw_on_param(draft, OpKind::kFullTensor);
  insert_at(ops, draft.choices.below(static_cast<std::uint32_t>(ops->size() + 1)), {op});
}

// unshard before a forward, mostly alone; else resharded at once or after that forward. The root
// keeps its parameters after forward, so that is where a reshard by hand changes most.
void add_unshard(Draft& draft, const std::string& group, Operations* ops) {
  const std::size_t forward = draft.choices.pick(forwards_of(*ops));
  const Operation unshard = make(OpKind::kUnshard, group);
  const Operation reshard = make(OpKind::kReshard, group);
  switch (draft.choices.below(4)) {
    case 1: insert_at(ops, forward, {unshard, reshard}); return;
    case 2:
      insert_at(ops, forward + 1, {reshard});
      insert_at(ops, forward, {unshard});
      return;
    case 3: insert_at(ops, forward + 1, {reshard}); return;
    default: insert_at(ops, forward, {unshard}); return;
  }
}

// One or two groups gather while others go on; each is waited for before the forward, after it, or
// only by the forward itself.
void add_async_unshard(Draft& draft, std::vector<std::string> groups, Operations* ops) {
  if (draft.choices.chance(35)) {
    const std::string& group = draft.choices.pick(groups);
    insert_at(ops, draft.choices.pick(forwards_of(*ops)),
              {make(OpKind::kUnshardAsyncOp, group, !draft.choices.chance(15))});
    return;
  }
  const std::size_t forward = draft.choices.pick(forwards_of(*ops));
  const std::size_t count = groups.size() > 1 && draft.choices.chance(45) ? 2 : 1;
  Operations before, waits, after;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string group = draft.choices.pick(groups);
    std::erase(groups, group);
    before.push_back(make(OpKind::kUnshard, group, true));
    const int where = draft.choices.weighted<int>({{60, 0}, {20, 1}, {20, 2}});
    if (where == 0) waits.push_back(make(OpKind::kWaitUnshard, group));
    if (where == 1) after.push_back(make(OpKind::kWaitUnshard, group));
  }
  before.insert(before.end(), waits.begin(), waits.end());
  insert_at(ops, forward + 1, after);
  insert_at(ops, forward, before);
}

void add_prefetch(Draft& draft, Operations* ops) {
  std::vector<std::string> nested;
  for (std::size_t g = 1; g < draft.c.groups.size(); ++g) nested.push_back(draft.c.groups[g].name);
  if (nested.empty()) return;
  const std::size_t place = draft.choices.chance(80) ? 0 : draft.choices.pick(forwards_of(*ops));
  const std::uint32_t which = draft.choices.below(3);
  if (which != 1) {
    insert_at(ops, place, {make(OpKind::kPrefetchForward, draft.choices.pick(nested))});
  }
  if (which != 0) {
    insert_at(ops, place, {make(OpKind::kPrefetchBackward, draft.choices.pick(nested))});
  }
}

// The group of an unshard by hand; each group at most once, so that handles are never mixed up.
void add_unshards(Draft& draft, Operations* ops) {
  std::vector<std::string> groups = sharded_groups(draft.c);
  if (draft.sometimes(Feature::kExplicitUnshard, 11)) {
    const std::string group = draft.choices.pick(groups);
    std::erase(groups, group);
    add_unshard(draft, group, ops);
  }
  if (!groups.empty() && draft.sometimes(Feature::kAsyncUnshard, 14)) {
    add_async_unshard(draft, groups, ops);
  }
}

}  // namespace

// The default four are left out: that is how the format spells them.
void draw_operations(Draft& draft) {
  Operations ops = draw_loop(draft);
  if (draft.sometimes(Feature::kFreezeOps, 6)) add_freeze(draft, &ops);
  if (draft.sometimes(Feature::kSaveLoad, 7)) add_save_load(draft, &ops);
  if (draft.sometimes(Feature::kFullTensor, 6)) add_full_tensor(draft, &ops);
  add_unshards(draft, &ops);
  if (draft.sometimes(Feature::kPrefetch, 12)) add_prefetch(draft, &ops);
  if (ops != default_loop()) draft.c.operations = std::move(ops);
}

}  // namespace shardfuzz::detail
