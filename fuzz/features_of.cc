#include "fuzz/features_of.h"

#include <algorithm>
#include <iterator>

#include "harness/case/pack_info.h"

namespace shardfuzz {
namespace {

template <typename Test>
bool any_group(const Case& c, Test test) {
  return std::any_of(c.groups.begin(), c.groups.end(), test);
}

template <typename Test>
bool any_param(const Case& c, Test test) {
  return any_group(c, [&](const GroupSpec& group) {
    return std::any_of(group.params.begin(), group.params.end(), test);
  });
}

template <typename Test>
bool any_op(const Case& c, Test test) {
  return std::any_of(c.operations.begin(), c.operations.end(), test);
}

bool has_op(const Case& c, OpKind kind) {
  return any_op(c, [&](const Operation& op) { return op.kind == kind; });
}

bool has_op(const Case& c, OpKind kind, bool flag) {
  return any_op(c, [&](const Operation& op) { return op.kind == kind && op.flag == flag; });
}

bool any_factor(const Case& c, bool (*test)(int)) {
  return std::any_of(c.batch.tokens_by_rank.begin(), c.batch.tokens_by_rank.end(), test);
}

bool has_mixed_packs(const Case& c) {
  const ParamSpec* first = nullptr;
  return any_param(c, [&](const ParamSpec& param) {
    if (first == nullptr) first = &param;
    return param.pack != first->pack || param.hook != first->hook;
  });
}

bool has_mixed_dtype(const GroupSpec& group) {
  return std::any_of(group.params.begin(), group.params.end(), [&](const ParamSpec& param) {
    return param.dtype != group.params.front().dtype;
  });
}

// Rows far above the number of ranks, of a parameter that is sharded over them.
bool has_many_experts(const Case& c) {
  const std::int64_t few = std::int64_t{4} * c.mesh.shard_size() + 1;
  return any_param(
      c, [&](const ParamSpec& param) { return param.shard_dim == 0 && param.shape[0] > few; });
}

// The most events of `kind` since the last of `until`, in one run of the list.
int most_in_a_row(const Case& c, OpKind kind, OpKind until) {
  int most = 0, count = 0;
  for (const Operation& op : operations_of(c)) {
    if (op.kind == kind) ++count;
    if (op.kind == until) count = 0;
    most = std::max(most, count);
  }
  return most;
}

// Not: some forwards and backwards, then one step, then one zero_grad.
bool has_odd_loop(const Case& c) {
  std::vector<OpKind> rest;
  for (const Operation& op : operations_of(c)) {
    if (op.kind == OpKind::kBackward || op.kind == OpKind::kStep || op.kind == OpKind::kZeroGrad) {
      if (rest.empty() || rest.back() != op.kind || op.kind == OpKind::kStep) {
        rest.push_back(op.kind);
      }
    }
  }
  return rest != std::vector<OpKind>{OpKind::kBackward, OpKind::kStep, OpKind::kZeroGrad};
}

// In a mixed group either dtype may be the odd one out.
bool has_bf16_original(const GroupSpec& group) {
  return !group.params.empty() && !has_mixed_dtype(group) &&
         group.params.front().dtype == DType::kBFloat16;
}

bool has_bf16_reduce(const GroupSpec& group) {
  const MixedPrecision& mixed = group.mixed_precision;
  return mixed.param_dtype == DType::kBFloat16 && mixed.reduce_dtype != DType::kFloat32;
}

bool has_reshard_false(const GroupSpec& group) {
  const bool* flag = std::get_if<bool>(&group.reshard_after_forward);
  return flag != nullptr && !*flag;
}

using C = const Case&;
using G = const GroupSpec&;
using P = const ParamSpec&;

struct Row {
  Feature feature;
  bool (*test)(const Case&);
};

// In the order of the enum.
constexpr Row kRows[] = {
    {Feature::kHsdp, [](C c) { return c.mesh.shape.size() > 1; }},
    {Feature::kLargeWorld, [](C c) { return c.mesh.world_size() > 4; }},
    {Feature::kRandomSchedule, [](C c) { return c.schedule.policy == SchedulePolicy::kRandom; }},
    {Feature::kPrioritySchedule,
     [](C c) { return c.schedule.policy == SchedulePolicy::kPriority; }},
    {Feature::kLateDelivery, [](C c) { return c.schedule.delivery == Delivery::kLate; }},
    {Feature::kDelays, [](C c) { return !c.schedule.delays.empty(); }},
    {Feature::kCompareMeshes, [](C c) { return !c.compare_meshes.empty(); }},
    {Feature::kMixedPacks, has_mixed_packs},
    {Feature::kOtherCalls,
     [](C c) {
       return any_param(c, [](P p) { return p.call != find_pack(p.pack)->calls.front(); });
     }},
    {Feature::kBf16Original, [](C c) { return any_group(c, has_bf16_original); }},
    {Feature::kMixedDtype, [](C c) { return any_group(c, has_mixed_dtype); }},
    {Feature::kFrozen, [](C c) { return any_param(c, [](P p) { return !p.requires_grad; }); }},
    {Feature::kTied, [](C c) { return any_param(c, [](P p) { return !p.tied_to.empty(); }); }},
    {Feature::kShardDim1, [](C c) { return any_param(c, [](P p) { return p.shard_dim == 1; }); }},
    {Feature::kManyExperts, has_many_experts},
    {Feature::kUnusedModules,
     [](C c) { return any_group(c, [](G g) { return !g.unused_on_ranks.empty(); }); }},
    {Feature::kReshardFalse, [](C c) { return any_group(c, has_reshard_false); }},
    {Feature::kReshardInt,
     [](C c) {
       return any_group(c,
                        [](G g) { return std::holds_alternative<int>(g.reshard_after_forward); });
     }},
    {Feature::kNoMixedPrecision,
     [](C c) { return any_group(c, [](G g) { return !g.mixed_precision.param_dtype; }); }},
    {Feature::kFp32Param,
     [](C c) {
       return any_group(c, [](G g) { return g.mixed_precision.param_dtype == DType::kFloat32; });
     }},
    {Feature::kBf16Reduce, [](C c) { return any_group(c, has_bf16_reduce); }},
    {Feature::kOutputDtype,
     [](C c) {
       return any_group(c, [](G g) { return g.mixed_precision.output_dtype.has_value(); });
     }},
    {Feature::kKeepInputs,
     [](C c) { return any_group(c, [](G g) { return !g.mixed_precision.cast_forward_inputs; }); }},
    {Feature::kOffload, [](C c) { return any_group(c, [](G g) { return g.offload_to_cpu; }); }},
    {Feature::kUnevenTokens, [](C c) { return any_factor(c, [](int f) { return f > 1; }); }},
    {Feature::kIdleRanks,
     [](C c) {
       return c.batch.tokens_per_expert == 0 || any_factor(c, [](int f) { return f == 0; });
     }},
    {Feature::kEmptyExperts, [](C c) { return !c.batch.empty_experts.empty(); }},
    {Feature::kTopK, [](C c) { return c.batch.top_k > 1; }},
    // Cases for other meshes have the same batch everywhere because they must.
    {Feature::kSameBatch,
     [](C c) { return c.batch.same_on_all_ranks && c.compare_meshes.empty(); }},
    {Feature::kNormalData, [](C c) { return c.batch.values == DataKind::kNormal; }},
    {Feature::kMomentum, [](C c) { return c.optimizer.kind == OptimizerKind::kSgdMomentum; }},
    {Feature::kManySteps, [](C c) { return c.steps > 3; }},
    {Feature::kGradientAccumulation,
     [](C c) { return most_in_a_row(c, OpKind::kBackward, OpKind::kStep) > 1; }},
    {Feature::kTwoForwards,
     [](C c) { return most_in_a_row(c, OpKind::kForward, OpKind::kBackward) > 1; }},
    {Feature::kSkipAllReduce, [](C c) { return has_op(c, OpKind::kAllReduce); }},
    {Feature::kReshardAfterBackward, [](C c) { return has_op(c, OpKind::kReshardAfterBackward); }},
    {Feature::kOddLoops, has_odd_loop},
    {Feature::kExplicitUnshard,
     [](C c) { return has_op(c, OpKind::kReshard) || has_op(c, OpKind::kUnshard, false); }},
    {Feature::kAsyncUnshard,
     [](C c) { return has_op(c, OpKind::kUnshardAsyncOp) || has_op(c, OpKind::kUnshard, true); }},
    {Feature::kPrefetch,
     [](C c) {
       return has_op(c, OpKind::kPrefetchForward) || has_op(c, OpKind::kPrefetchBackward);
     }},
    {Feature::kFreezeOps,
     [](C c) { return has_op(c, OpKind::kFreeze) || has_op(c, OpKind::kUnfreeze); }},
    {Feature::kSaveLoad, [](C c) { return has_op(c, OpKind::kSave) || has_op(c, OpKind::kLoad); }},
    {Feature::kFullTensor, [](C c) { return has_op(c, OpKind::kFullTensor); }},
};
static_assert(std::size(kRows) == kFeatureCount);

}  // namespace

bool uses(const Case& c, Feature feature) {
  const Row& row = kRows[static_cast<std::size_t>(feature)];
  SHARDFUZZ_CHECK(row.feature == feature, "the table is not in the order of the enum at '{}'",
                  name_of(feature));
  return row.test(c);
}

Swarm features_of(const Case& c) {
  Swarm features;
  for (const Feature feature : all_features()) features.set(feature, uses(c, feature));
  return features;
}

}  // namespace shardfuzz
