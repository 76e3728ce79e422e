// One generated parameter: its pack, its call path and, what most bugs hang on, its shape.
#include <algorithm>

#include "fuzz/detail/draft.h"

namespace shardfuzz::detail {
namespace {

constexpr int kMostMultiple = 4;  // dim 0 is near 1..4 times the number of ranks

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

// Sizes of dim 0 around the places where the split over `ranks` changes its kind.
std::int64_t draw_rows(Choices& choices, int ranks) {
  if (ranks == 1) return choices.between(1, kMostMultiple);
  enum class Kind { kEven, kOneOver, kOneUnder, kBelowRanks, kAny };
  const auto kind = choices.weighted<Kind>({{30, Kind::kEven},
                                            {20, Kind::kOneOver},
                                            {20, Kind::kOneUnder},
                                            {20, Kind::kBelowRanks},
                                            {10, Kind::kAny}});
  if (kind == Kind::kBelowRanks) return choices.between(1, ranks - 1);
  if (kind == Kind::kAny) return choices.between(1, std::int64_t{kMostMultiple} * ranks);
  const std::int64_t even = choices.weighted<int>({{40, 1}, {30, 2}, {18, 3}, {12, 4}}) *
                            static_cast<std::int64_t>(ranks);
  return kind == Kind::kOneOver ? even + 1 : kind == Kind::kOneUnder ? even - 1 : even;
}

// As many as a large model has; again around a multiple of the ranks.
std::int64_t draw_many_rows(Choices& choices, int ranks, std::int64_t limit) {
  const std::int64_t least = std::int64_t{kMostMultiple + 1} * ranks + 1;
  const std::int64_t rows = choices.between(kMostMultiple + 2, limit / ranks + 1) * ranks;
  return std::clamp<std::int64_t>(rows + choices.pick({0, 1, -1}), least, limit);
}

CallPath draw_call(Draft& draft, const PackInfo& pack) {
  if (pack.calls.size() == 1 || !draft.sometimes(Feature::kOtherCalls, 35)) {
    return pack.calls.front();
  }
  std::vector<Weighted<CallPath>> others;
  for (std::size_t i = 1; i < pack.calls.size(); ++i) {
    // Wrappers written for routed experts want offsets: torchao 0.18 says "TODO" and returns None.
    const bool lacks_offsets = pack.is_extension && pack.calls[i] == CallPath::kGroupedMmNoOffs;
    others.push_back({lacks_offsets ? 1 : 10, pack.calls[i]});
  }
  return draft.choices.weighted(others);
}

std::size_t draw_dims(Draft& draft, const PackInfo& pack, CallPath call) {
  if (has_experts(call)) return 3;
  if (call == CallPath::kLinear) return 2;
  if (!pack.is_extension) {
    return draft.choices.weighted<std::size_t>({{40, 2}, {30, 1}, {22, 3}, {8, 4}});
  }
  const bool takes_experts = std::any_of(pack.calls.begin(), pack.calls.end(), has_experts);
  return takes_experts ? 3 : draft.choices.weighted<std::size_t>({{75, 2}, {25, 3}});
}

// Every dimension but the first is a multiple of this. 8: torch._grouped_mm wants strides of 16
// bytes.
std::int64_t inner_unit(const PackInfo& pack, CallPath call) {
  const bool grouped = call == CallPath::kGroupedMm || call == CallPath::kGroupedMmNoOffs;
  return std::max(pack.dim_multiple, grouped ? 8 : 1);
}

std::int64_t draw_inner(Choices& choices, std::int64_t unit) {
  if (unit < 8) return unit * choices.between(1, 8 / unit);
  return unit * choices.weighted<int>({{65, 1}, {30, 2}, {5, 3}});
}

// The largest dim 0 that a batch can serve within kMaxGeneratedRows (generate_batch.cc).
std::int64_t most_rows(const Draft& draft, CallPath call) {
  if (!has_experts(call)) return kMostExperts;
  const bool can_idle = call == CallPath::kGroupedMm && draft.on(Feature::kEmptyExperts);
  return can_idle ? kMostExperts : kMostBusyExperts;
}

// Shard(1). torch wants it even; one in seven is not, and must be refused the same everywhere. Dim
// 0 goes up to 2 R - 1, so that experts stand to the R ranks in every way.
void shard_second_dim(Draft& draft, std::int64_t unit, ParamSpec* param) {
  const int ranks = draft.c.mesh.shard_size();
  param->shard_dim = 1;
  param->shape[0] = draft.choices.between(1, std::max(4, 2 * ranks - 1));
  param->shape[1] = draft.choices.chance(14) ? unit * draft.choices.between(1, 4)
                                             : unit * ranks * draft.choices.between(1, 2);
}

// For when the case has little room left: at most a few thousand elements.
void make_small(Draft& draft, std::int64_t unit, ParamSpec* param) {
  const int ranks = draft.c.mesh.shard_size();
  auto& shape = param->shape;
  std::fill(shape.begin() + 1, shape.end(), unit);
  if (param->shard_dim == 1) shape[1] = unit * ranks;
  const int most = param->shard_dim == 1 ? 2 : ranks + 1;
  if (elements_of(shape) > draft.elements_left) shape[0] = draft.choices.between(1, most);
}

void draw_shape(Draft& draft, const PackInfo& pack, ParamSpec* param) {
  Choices& choices = draft.choices;
  const int ranks = draft.c.mesh.shard_size();
  const std::int64_t unit = inner_unit(pack, param->call);
  const std::int64_t limit = most_rows(draft, param->call);
  const bool can_be_many = std::int64_t{kMostMultiple + 1} * ranks + 1 < limit;
  auto& shape = param->shape;
  shape.resize(draw_dims(draft, pack, param->call));
  shape[0] = can_be_many && draft.sometimes(Feature::kManyExperts, 3)
                 ? draw_many_rows(choices, ranks, limit)
                 : std::min(draw_rows(choices, ranks), limit);
  for (std::size_t i = 1; i < shape.size(); ++i) shape[i] = draw_inner(choices, unit);
  if (shape.size() > 1 && draft.sometimes(Feature::kShardDim1, pack.is_extension ? 1 : 7)) {
    shard_second_dim(draft, unit, param);
  }
  if (elements_of(shape) > draft.elements_left) make_small(draft, unit, param);
  draft.elements_left -= elements_of(shape);
}

bool supports(const PackInfo& pack, DType dtype) {
  return std::find(pack.dtypes.begin(), pack.dtypes.end(), dtype) != pack.dtypes.end();
}

// Mostly the group's own pack; sometimes company for it.
PackHook draw_pack(Draft& draft, const GroupPlan& plan) {
  PackHook chosen = plan.main;
  if (draft.sometimes(Feature::kMixedPacks, 25)) {
    const PackInfo* plain = find_pack("plain");
    chosen = draft.choices.chance(30) ? draft.choices.pick(draft.palette)
                                      : PackHook{.pack = plain, .hook = &plain->hooks.front()};
  }
  return supports(*chosen.pack, plan.dtype) ? chosen : plan.main;
}

// FSDP2 refuses two original dtypes among the trainable parameters of a group, so the odd one out
// is frozen, and trainable rarely.
void draw_dtype(Draft& draft, const GroupPlan& plan, const PackInfo& pack, ParamSpec* param) {
  param->dtype = plan.dtype;
  param->requires_grad = !plan.all_frozen && !draft.choices.chance(plan.frozen_percent);
  const DType other = plan.dtype == DType::kFloat32 ? DType::kBFloat16 : DType::kFloat32;
  if (plan.is_first || !draft.on(Feature::kMixedDtype) || !supports(pack, other)) return;
  const bool stays_frozen = !param->requires_grad;
  const bool freeze = !stays_frozen && draft.sometimes(Feature::kFrozen, 2);
  if (!stays_frozen && !freeze && !draft.choices.chance(1)) return;
  if (stays_frozen && !draft.choices.chance(40)) return;
  param->dtype = other;
  if (freeze) param->requires_grad = false;
}

}  // namespace

ParamSpec draw_param(Draft& draft, const GroupPlan& plan) {
  const PackHook chosen = draw_pack(draft, plan);
  ParamSpec param;
  param.pack = chosen.pack->name;
  param.hook = chosen.hook->name;
  param.call = draw_call(draft, *chosen.pack);
  draw_dtype(draft, plan, *chosen.pack, &param);
  draw_shape(draft, *chosen.pack, &param);
  return param;
}

}  // namespace shardfuzz::detail
