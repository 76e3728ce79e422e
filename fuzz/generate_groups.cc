// The groups of a generated case: how many, of which packs, with which policies.
#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "fuzz/detail/draft.h"

namespace shardfuzz::detail {
namespace {

constexpr std::array kGroupNames{"root", "g1", "g2", "g3"};
constexpr std::array kParamNames{"w0", "w1", "w2", "w3"};

// What all groups of a case have in common unless they draw their own.
struct CasePlan {
  DType dtype = DType::kFloat32;
  MixedPrecision policy;
  bool some_frozen = false;
  bool offloads = false;
};

// Few packs a case: a bug of one pack would hide those of the others.
void draw_palette(Draft& draft) {
  draft.palette = {draft.choices.pick(draft.allowed)};
  while (draft.palette.size() < 3 && draft.sometimes(Feature::kMixedPacks, 35)) {
    const PackHook& another = draft.choices.pick(draft.allowed);
    if (std::find(draft.palette.begin(), draft.palette.end(), another) != draft.palette.end()) {
      break;
    }
    draft.palette.push_back(another);
  }
}

bool supports(const PackInfo& pack, DType dtype) {
  return std::find(pack.dtypes.begin(), pack.dtypes.end(), dtype) != pack.dtypes.end();
}

GroupPlan draw_group_plan(Draft& draft, const CasePlan& common) {
  GroupPlan plan{.main = draft.choices.pick(draft.palette), .dtype = common.dtype};
  if (draft.sometimes(Feature::kBf16Original, 10)) {
    plan.dtype = plan.dtype == DType::kFloat32 ? DType::kBFloat16 : DType::kFloat32;
  }
  if (!supports(*plan.main.pack, plan.dtype)) plan.dtype = plan.main.pack->dtypes.front();
  if (common.some_frozen) {
    plan.all_frozen = draft.choices.chance(25);
    plan.frozen_percent = 35;
  }
  return plan;
}

std::string full_name(const GroupSpec& group, const ParamSpec& param) {
  return group.name + "." + param.name;
}

// A parameter that one of `group` may be tied to, in the tied one's own spelling. Mostly of the
// same group: FSDP2 does not promise to handle parameters shared between groups (their gradients go
// wrong without a word), so those would drown everything else.
std::optional<ParamSpec> draw_tied(Draft& draft, const GroupSpec& group, DType dtype) {
  std::vector<ParamSpec> candidates;
  const auto add = [&](const GroupSpec& owner) {
    for (const ParamSpec& param : owner.params) {
      if (!param.tied_to.empty() || param.dtype != dtype) continue;
      candidates.push_back(param);
      candidates.back().tied_to = full_name(owner, param);
    }
  };
  if (draft.choices.chance(8)) {
    for (const GroupSpec& earlier : draft.c.groups) add(earlier);
  } else {
    add(group);
  }
  if (candidates.empty()) return std::nullopt;
  return draft.choices.pick(candidates);
}

void draw_params(Draft& draft, GroupPlan plan, int count, GroupSpec* group) {
  for (int i = 0; i < count; ++i) {
    if (i > 0 && draft.elements_left <= 0) return;
    std::optional<ParamSpec> param;
    if (draft.sometimes(Feature::kTied, 5)) param = draw_tied(draft, *group, plan.dtype);
    if (!param) param = draw_param(draft, plan);
    param->name = kParamNames[static_cast<std::size_t>(i)];
    group->params.push_back(*std::move(param));
    plan.is_first = false;
  }
}

MixedPrecision draw_policy(Draft& draft, bool needs_param_dtype) {
  const auto bf16 = DType::kBFloat16;
  const auto fp32 = DType::kFloat32;
  const int without = needs_param_dtype ? 0 : draft.weight(Feature::kNoMixedPrecision, 24);
  auto policy = draft.choices.weighted<MixedPrecision>(
      {{56, {.param_dtype = bf16, .reduce_dtype = fp32}},
       {draft.weight(Feature::kBf16Reduce, 12), {.param_dtype = bf16, .reduce_dtype = bf16}},
       {draft.weight(Feature::kBf16Reduce, 6), {.param_dtype = bf16}},
       {draft.weight(Feature::kFp32Param, 4), {.param_dtype = fp32, .reduce_dtype = fp32}},
       {without, {}},
       {without / 4, {.reduce_dtype = fp32}}});
  if (draft.sometimes(Feature::kOutputDtype, 5))
    policy.output_dtype = draft.choices.pick({fp32, bf16});
  if (policy.param_dtype && draft.sometimes(Feature::kKeepInputs, 8)) {
    policy.cast_forward_inputs = false;
  }
  return policy;
}

bool has_pack(const GroupSpec& group, bool PackInfo::*property) {
  return std::any_of(group.params.begin(), group.params.end(),
                     [&](const ParamSpec& param) { return find_pack(param.pack)->*property; });
}

// An int must be a real divisor of the shard size; torch refuses it for extensions.
ReshardAfterForward draw_reshard(Draft& draft, const GroupSpec& group) {
  std::vector<int> divisors;
  const int shard_size = draft.c.mesh.shard_size();
  for (int n = 2; n < shard_size; ++n) {
    if (shard_size % n == 0) divisors.push_back(n);
  }
  const bool refused = has_pack(group, &PackInfo::is_extension);
  const int int_weight =
      divisors.empty() ? 0 : draft.weight(Feature::kReshardInt, refused ? 3 : 40);
  enum class Kind { kDefault, kTrue, kFalse, kInt };
  switch (draft.choices.weighted<Kind>({{50, Kind::kDefault},
                                        {22, Kind::kTrue},
                                        {draft.weight(Feature::kReshardFalse, 20), Kind::kFalse},
                                        {int_weight, Kind::kInt}})) {
    case Kind::kDefault: return std::monostate{};
    case Kind::kTrue: return true;
    case Kind::kFalse: return false;
    case Kind::kInt: return draft.choices.pick(divisors);
  }
  SHARDFUZZ_CHECK(false, "no such kind of reshard");
}

void draw_policies(Draft& draft, const CasePlan& common, GroupSpec* group) {
  const bool needs = has_pack(*group, &PackInfo::needs_param_dtype);
  const bool fits = !needs || common.policy.param_dtype.has_value();
  group->mixed_precision =
      fits && !draft.choices.chance(20) ? common.policy : draw_policy(draft, needs);
  group->reshard_after_forward = draw_reshard(draft, *group);
  group->offload_to_cpu = common.offloads && draft.choices.chance(70);
}

// Rare: where only some ranks use a module, FSDP2 documents that the others wait for ever.
void draw_unused(Draft& draft) {
  if (draft.c.groups.size() < 2 || !draft.sometimes(Feature::kUnusedModules, 5)) return;
  const int world_size = draft.c.mesh.world_size();
  GroupSpec& group =
      draft.c
          .groups[1 + draft.choices.below(static_cast<std::uint32_t>(draft.c.groups.size() - 1))];
  if (world_size == 1 || draft.choices.chance(60)) {
    for (int rank = 0; rank < world_size; ++rank) group.unused_on_ranks.push_back(rank);
    return;
  }
  const auto spared = static_cast<int>(draft.choices.below(static_cast<std::uint32_t>(world_size)));
  for (int rank = 0; rank < world_size; ++rank) {
    if (rank != spared && draft.choices.chance(50)) group.unused_on_ranks.push_back(rank);
  }
  if (group.unused_on_ranks.empty()) group.unused_on_ranks = {(spared + 1) % world_size};
}

}  // namespace

void draw_groups(Draft& draft) {
  Choices& choices = draft.choices;
  draw_palette(draft);
  CasePlan common;
  if (draft.sometimes(Feature::kBf16Original, 30)) common.dtype = DType::kBFloat16;
  common.policy = draw_policy(draft, false);
  common.some_frozen = draft.sometimes(Feature::kFrozen, 16);
  common.offloads = draft.sometimes(Feature::kOffload, 3);
  const int nested = choices.weighted<int>({{50, 1}, {28, 2}, {11, 3}, {11, 0}});
  for (int g = 0; g <= nested; ++g) {
    GroupSpec group{.name = kGroupNames[static_cast<std::size_t>(g)]};
    int count = 0;
    if (g > 0) {
      count = choices.weighted<int>({{45, 1}, {30, 2}, {15, 3}, {10, 4}});
    } else {
      count = choices.weighted<int>({{nested > 0 ? 35 : 0, 0}, {40, 1}, {25, 2}});
    }
    draw_params(draft, draw_group_plan(draft, common), count, &group);
    draw_policies(draft, common, &group);
    draft.c.groups.push_back(std::move(group));
  }
  draw_unused(draft);
}

}  // namespace shardfuzz::detail
