#include "harness/minimize/case_size.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "harness/base/check.h"
#include "harness/case/case_names.h"
#include "harness/case/pack_info.h"
#include "harness/minimize/edits.h"

namespace shardfuzz {
namespace {

// A seed is a name, not an amount; beyond this all are equally far from 0.
constexpr std::uint64_t kSeedDistanceMax = 1000000;

template <typename T>
std::int64_t entries(const std::vector<T>& list) {
  return static_cast<std::int64_t>(list.size());
}

std::int64_t sum(const std::vector<int>& list) {
  return std::accumulate(list.begin(), list.end(), std::int64_t{0},
                         [](std::int64_t total, int value) { return total + std::abs(value); });
}

std::int64_t seed_distance(std::uint64_t seed) {
  return static_cast<std::int64_t>(std::min(seed, kSeedDistanceMax));
}

void add_param(const ParamSpec& param, CaseSize* size) {
  std::int64_t elements = 1;
  for (const std::int64_t dim : param.shape) elements *= dim;
  ++size->params;
  size->elements += elements;
  size->shape_dims += static_cast<std::int64_t>(param.shape.size());
  size->unusual_uses += param.call != simplest_call(param);
  size->unusual_fields += param.dtype != simplest_dtype(param);
  size->unusual_uses += param.shard_dim != 0;
  size->unusual_fields += !param.requires_grad;
  size->unusual_fields += !param.tied_to.empty();
  size->unusual_fields += param.tensor_parallel_dim.has_value();
}

// None is simplest; then true, which resharding is about; then false, then a number.
std::int64_t reshard_cost(const ReshardAfterForward& reshard) {
  if (const bool* flag = std::get_if<bool>(&reshard)) return *flag ? 1 : 2;
  return std::holds_alternative<int>(reshard) ? 3 : 0;
}

void add_group(const GroupSpec& group, CaseSize* size) {
  const MixedPrecision& mixed = group.mixed_precision;
  const auto simplest = simplest_param_dtype(group);
  ++size->groups;
  size->unusual_fields += reshard_cost(group.reshard_after_forward);
  if (mixed.param_dtype != simplest) {
    size->unusual_fields += mixed.param_dtype == DType::kBFloat16 ? 1 : 2;
  }
  size->unusual_fields += mixed.reduce_dtype.has_value();
  size->unusual_fields += mixed.output_dtype.has_value();
  size->unusual_fields += !mixed.cast_forward_inputs;
  size->unusual_fields += group.offload_to_cpu;
  size->list_entries += entries(group.unused_on_ranks);
  size->distance += sum(group.unused_on_ranks);
  for (const ParamSpec& param : group.params) add_param(param, size);
}

void add_rest(const Case& c, CaseSize* size) {
  size->list_entries +=
      entries(c.batch.tokens_by_rank) + entries(c.batch.empty_experts) + entries(c.schedule.delays);
  size->distance +=
      sum(c.batch.tokens_by_rank) + sum(c.batch.empty_experts) + sum(c.schedule.delays);
  for (const auto& shape : c.compare_meshes) {
    size->list_entries += entries(shape);
    size->distance += sum(shape);
  }
  size->unusual_fields += c.batch.same_on_all_ranks;
  size->unusual_fields += c.batch.values != DataKind::kInteger;
  size->unusual_fields += c.optimizer.kind != OptimizerKind::kSgd;
  size->unusual_fields += c.optimizer.lr_log2 != Optimizer{}.lr_log2;
  size->unusual_fields += c.schedule.policy != SchedulePolicy::kRoundRobin;
  size->unusual_fields += c.schedule.delivery != Delivery::kEarly;
  size->unusual_fields += c.schedule.seed != 0;
  size->unusual_fields += c.schedule.change_points != 0;
  size->unusual_fields += c.seed != 0;
  size->unusual_fields += !c.operations.empty();
  size->distance += std::abs(c.optimizer.lr_log2 - Optimizer{}.lr_log2) + c.schedule.change_points;
  size->distance += seed_distance(c.schedule.seed) + seed_distance(c.seed);
}

void add_operations(const Case& c, CaseSize* size) {
  const std::vector<Operation> operations = operations_of(c);
  size->operations_written = static_cast<std::int64_t>(operations.size());
  size->operations_run = c.steps * size->operations_written;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& op = operations[i];
    size->unusual_fields += arguments_of(op.kind).flag && op.flag != simplest_flag(op.kind);
    size->disorder +=
        std::count_if(operations.begin(), operations.begin() + static_cast<std::ptrdiff_t>(i),
                      [&](const Operation& other) { return other.kind > op.kind; });
    if (const auto target = find_param(c, op.group, op.param)) {
      size->distance += static_cast<std::int64_t>(target->group + target->param);
    }
  }
}

std::int64_t count_unusual_names(const Case& c) {
  std::int64_t count = 0;
  for (std::size_t g = 0; g < c.groups.size(); ++g) {
    count += c.groups[g].name != canonical_group_name(g);
    for (std::size_t p = 0; p < c.groups[g].params.size(); ++p) {
      count += c.groups[g].params[p].name != canonical_param_name(p);
    }
  }
  return count;
}

}  // namespace

CaseSize size_of(const Case& c) {
  CaseSize size;
  size.ranks = c.mesh.world_size();
  size.mesh_dims = static_cast<std::int64_t>(c.mesh.shape.size());
  for (const GroupSpec& group : c.groups) add_group(group, &size);
  size.nested_params = size.params;
  if (!c.groups.empty()) size.nested_params -= entries(c.groups[0].params);
  add_operations(c, &size);
  size.rows_off_floor =
      std::abs(c.batch.tokens_per_expert - fewest_tokens(c)) + std::abs(c.batch.top_k - 1);
  add_rest(c, &size);
  size.unusual_names = count_unusual_names(c);
  return size;
}

DType simplest_dtype(const ParamSpec& param) {
  const PackInfo* pack = find_pack(param.pack);
  if (pack == nullptr || pack->dtypes.empty()) return DType::kFloat32;
  const bool takes_fp32 =
      std::find(pack->dtypes.begin(), pack->dtypes.end(), DType::kFloat32) != pack->dtypes.end();
  return takes_fp32 ? DType::kFloat32 : pack->dtypes.front();
}

CallPath simplest_call(const ParamSpec& param) {
  const PackInfo* pack = find_pack(param.pack);
  return pack == nullptr || pack->calls.empty() ? param.call : pack->calls.front();
}

std::optional<DType> simplest_param_dtype(const GroupSpec& group) {
  for (const ParamSpec& param : group.params) {
    const PackInfo* pack = find_pack(param.pack);
    if (pack != nullptr && pack->needs_param_dtype) return DType::kBFloat16;
  }
  return std::nullopt;
}

bool simplest_flag(OpKind kind) {
  return kind == OpKind::kGradientSync || kind == OpKind::kReshardAfterBackward ||
         kind == OpKind::kAllReduce;
}

std::int64_t dim_step(const ParamSpec& param) {
  const PackInfo* pack = find_pack(param.pack);
  return pack == nullptr ? 1 : std::max(1, pack->dim_multiple);
}

int fewest_tokens(const Case& c) {
  std::int64_t fewest = 1;
  for (const GroupSpec& group : c.groups) {
    for (const ParamSpec& param : group.params) fewest = std::max(fewest, dim_step(param));
  }
  return static_cast<int>(fewest);
}

std::size_t dims_of_call(CallPath call) {
  switch (call) {
    case CallPath::kGroupedMm:
    case CallPath::kGroupedMmNoOffs:
    case CallPath::kBmm: return 3;
    case CallPath::kLinear: return 2;
    case CallPath::kMul: return 0;
  }
  SHARDFUZZ_CHECK(false, "call path {} has no dims", static_cast<int>(call));
}

}  // namespace shardfuzz
