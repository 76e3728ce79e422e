#include "fuzz/domain_axes.h"

#include <algorithm>
#include <iterator>

#include "fuzz/features_of.h"
#include "harness/layout/chunk.h"

namespace shardfuzz {
namespace {

constexpr ClassName kEvennessNames[] = {
    {"one_shard", "one shard"},
    {"even", "even shards"},
    {"one_missing", "last rank one row short"},
    {"short_last", "last rank 2+ rows short"},
    {"empty_ranks", "enough rows, yet an empty rank"},
    {"fewer_rows", "fewer rows than ranks"},
    {"single_row", "one row on several ranks"},
    {"other_even", "another dim sharded, even"},
    {"other_uneven", "another dim sharded, uneven"},
};
static_assert(std::size(kEvennessNames) == static_cast<std::size_t>(Evenness::kOtherUneven) + 1);

constexpr ClassName kDtypesNames[] = {
    {"wide_as_is", "fp32, no policy"},
    {"narrow_as_is", "bf16, no policy"},
    {"wide_kept", "fp32, kept by a policy"},
    {"narrow_kept", "bf16, kept by a policy"},
    {"kept_reduced", "kept, reduced otherwise"},
    {"narrowed", "narrowed"},
    {"narrowed_reduced", "narrowed, reduced otherwise"},
    {"widened", "widened"},
};
static_assert(std::size(kDtypesNames) == static_cast<std::size_t>(Dtypes::kWidened) + 1);

constexpr ClassName kReshardNames[] = {
    {"root_default", "root, default reshard"},     {"root_true", "root, reshard True"},
    {"root_false", "root, reshard False"},         {"root_int", "root, int reshard"},
    {"nested_default", "nested, default reshard"}, {"nested_true", "nested, reshard True"},
    {"nested_false", "nested, reshard False"},     {"nested_int", "nested, int reshard"},
};
static_assert(std::size(kReshardNames) == static_cast<std::size_t>(Reshard::kNestedInt) + 1);

constexpr ClassName kMeshNames[] = {{"one", "1 rank"},
                                    {"two", "2 ranks"},
                                    {"odd", "3, 5, ... ranks"},
                                    {"four_up", "4, 6, ... ranks"},
                                    {"hsdp", "replicas (HSDP)"}};
static_assert(std::size(kMeshNames) == static_cast<std::size_t>(MeshClass::kHsdp) + 1);

constexpr ClassName kStepsNames[] = {{"one", "1 step"}, {"two", "2 steps"}, {"more", "3+ steps"}};
static_assert(std::size(kStepsNames) == static_cast<std::size_t>(StepsClass::kMore) + 1);

constexpr ClassName kExpertsNames[] = {
    {"none", "no experts"},         {"one", "1 expert"},          {"below", "2 to W-1 experts"},
    {"multiple", "kW experts"},     {"one_over", "kW+1 experts"}, {"one_under", "kW-1 experts"},
    {"other", "experts 2+ off kW"},
};
static_assert(std::size(kExpertsNames) == static_cast<std::size_t>(Experts::kOther) + 1);

constexpr ClassName kOperationsNames[] = {
    {"plain", "plain loop"},
    {"odd_loop", "odd loop"},
    {"accumulation", "gradient accumulation"},
    {"unshard", "unshard by hand"},
    {"async", "async unshard"},
    {"prefetch", "prefetch"},
    {"freeze", "freezing"},
    {"save_load", "state dict, full_tensor"},
    {"mixed", "mixed operations"},
};
static_assert(std::size(kOperationsNames) == static_cast<std::size_t>(OperationsClass::kMixed) + 1);

bool has_replicas(const Mesh& mesh) {
  return std::find(mesh.dim_names.begin(), mesh.dim_names.end(), "replicate") !=
         mesh.dim_names.end();
}

bool has_experts(CallPath call) {
  switch (call) {
    case CallPath::kGroupedMm:
    case CallPath::kGroupedMmNoOffs:
    case CallPath::kBmm: return true;
    case CallPath::kLinear:
    case CallPath::kMul: return false;
  }
  SHARDFUZZ_CHECK(false, "call path {} is unknown", static_cast<int>(call));
}

}  // namespace

std::string_view name_of(Axis axis) {
  switch (axis) {
    case Axis::kEvenness: return "evenness";
    case Axis::kDtypes: return "dtypes";
    case Axis::kHook: return "hook";
    case Axis::kReshard: return "reshard";
    case Axis::kMesh: return "mesh";
    case Axis::kSteps: return "steps";
    case Axis::kExperts: return "experts";
    case Axis::kOperations: return "operations";
  }
  SHARDFUZZ_CHECK(false, "axis {} has no name", static_cast<int>(axis));
}

std::vector<ClassName> class_names(Axis axis) {
  const auto all = [](const auto& table) {
    return std::vector<ClassName>(std::begin(table), std::end(table));
  };
  switch (axis) {
    case Axis::kEvenness: return all(kEvennessNames);
    case Axis::kDtypes: return all(kDtypesNames);
    case Axis::kHook: break;
    case Axis::kReshard: return all(kReshardNames);
    case Axis::kMesh: return all(kMeshNames);
    case Axis::kSteps: return all(kStepsNames);
    case Axis::kExperts: return all(kExpertsNames);
    case Axis::kOperations: return all(kOperationsNames);
  }
  SHARDFUZZ_CHECK(false, "the classes of axis '{}' are not fixed", name_of(axis));
}

Evenness evenness_of(const ParamSpec& param, int shard_ranks) {
  if (shard_ranks == 1) return Evenness::kOneShard;
  const std::int64_t rows = param.shape[static_cast<std::size_t>(param.shard_dim)];
  const layout::Split split{.total = rows, .ranks = shard_ranks};
  const bool is_even = layout::is_even(split);
  if (param.shard_dim != 0) return is_even ? Evenness::kOtherEven : Evenness::kOtherUneven;
  if (is_even) return Evenness::kEven;
  if (rows == 1) return Evenness::kSingleRow;
  if (rows < shard_ranks) return Evenness::kFewerRows;
  const std::int64_t last = layout::chunk_of(split, shard_ranks - 1).count;
  if (last == 0) return Evenness::kEmptyRanks;
  return layout::padded_rows(split) - last == 1 ? Evenness::kOneMissing : Evenness::kShortLast;
}

Dtypes dtypes_of(DType original, const MixedPrecision& policy) {
  const DType computed = policy.param_dtype.value_or(original);
  const int original_bytes = element_bytes(original);
  const int computed_bytes = element_bytes(computed);
  const int reduced_bytes = element_bytes(policy.reduce_dtype.value_or(computed));
  if (computed_bytes > original_bytes) return Dtypes::kWidened;
  if (computed_bytes < original_bytes) {
    return reduced_bytes == computed_bytes ? Dtypes::kNarrowed : Dtypes::kNarrowedReduced;
  }
  if (reduced_bytes != computed_bytes) return Dtypes::kKeptReduced;
  const bool is_wide = original_bytes >= 4;
  if (!policy.param_dtype && !policy.reduce_dtype) {
    return is_wide ? Dtypes::kWideAsIs : Dtypes::kNarrowAsIs;
  }
  return is_wide ? Dtypes::kWideKept : Dtypes::kNarrowKept;
}

Reshard reshard_of(const ReshardAfterForward& reshard, bool is_root, int shard_ranks) {
  ReshardAfterForward meant = reshard;
  if (const int* size = std::get_if<int>(&reshard)) {
    if (*size == shard_ranks) meant = true;
    if (*size == 1) meant = false;
  }
  if (std::holds_alternative<int>(meant)) return is_root ? Reshard::kRootInt : Reshard::kNestedInt;
  const bool* flag = std::get_if<bool>(&meant);
  if (flag == nullptr) return is_root ? Reshard::kRootDefault : Reshard::kNestedDefault;
  if (is_root) return *flag ? Reshard::kRootTrue : Reshard::kRootFalse;
  return *flag ? Reshard::kNestedTrue : Reshard::kNestedFalse;
}

MeshClass mesh_class_of(const Mesh& mesh) {
  if (has_replicas(mesh)) return MeshClass::kHsdp;
  const int world_size = mesh.world_size();
  if (world_size == 1) return MeshClass::kOne;
  if (world_size == 2) return MeshClass::kTwo;
  return world_size % 2 == 1 ? MeshClass::kOdd : MeshClass::kFourUp;
}

StepsClass steps_class_of(int steps) {
  return steps == 1 ? StepsClass::kOne : steps == 2 ? StepsClass::kTwo : StepsClass::kMore;
}

Experts experts_of(const ParamSpec& param, int shard_ranks) {
  if (!has_experts(param.call)) return Experts::kNone;
  const std::int64_t experts = param.shape[0];
  if (experts == 1) return Experts::kOne;
  if (experts < shard_ranks) return Experts::kBelow;
  const std::int64_t over = experts % shard_ranks;
  if (over == 0) return Experts::kMultiple;
  if (over == 1) return Experts::kOneOver;
  return over == shard_ranks - 1 ? Experts::kOneUnder : Experts::kOther;
}

std::vector<Feature> features_for(OperationsClass operations) {
  switch (operations) {
    case OperationsClass::kPlain:
    case OperationsClass::kMixed: return {};
    case OperationsClass::kOddLoop: return {Feature::kOddLoops};
    case OperationsClass::kAccumulation:
      return {Feature::kGradientAccumulation, Feature::kTwoForwards, Feature::kSkipAllReduce,
              Feature::kReshardAfterBackward};
    case OperationsClass::kUnshard: return {Feature::kExplicitUnshard};
    case OperationsClass::kAsync: return {Feature::kAsyncUnshard};
    case OperationsClass::kPrefetch: return {Feature::kPrefetch};
    case OperationsClass::kFreeze: return {Feature::kFreezeOps};
    case OperationsClass::kSaveLoad: return {Feature::kSaveLoad, Feature::kFullTensor};
  }
  SHARDFUZZ_CHECK(false, "operations class {} is unknown", static_cast<int>(operations));
}

OperationsClass operations_class_of(const Case& c) {
  OperationsClass found = OperationsClass::kPlain;
  if (c.operations.empty()) return found;  // the default four
  for (int i = 0; i < static_cast<int>(OperationsClass::kMixed); ++i) {
    const auto candidate = static_cast<OperationsClass>(i);
    const std::vector<Feature> features = features_for(candidate);
    const bool is_there = std::any_of(features.begin(), features.end(),
                                      [&](Feature feature) { return uses(c, feature); });
    if (!is_there) continue;
    if (found != OperationsClass::kPlain) return OperationsClass::kMixed;
    found = candidate;
  }
  return found;
}

}  // namespace shardfuzz
