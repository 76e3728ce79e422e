// The batch of a generated case: rows by expert and by rank, kept small.
#include <algorithm>

#include "fuzz/detail/draft.h"
#include "fuzz/generator.h"

namespace shardfuzz::detail {
namespace {

// What the parameters of the case ask of the batch.
struct Demand {
  int grouped_experts = 0;  // the most experts of a grouped_mm, which may leave some without rows
  int other_experts = 0;    // the most of the other paths, which may not
  int token_unit = 1;       // fp8 kernels take rows by 16
};

Demand demand_of(const Case& c) {
  Demand demand;
  for (const GroupSpec& group : c.groups) {
    for (const ParamSpec& param : group.params) {
      if (param.call == CallPath::kMul) continue;
      const int multiple = find_pack(param.pack)->dim_multiple;
      demand.token_unit = std::max(demand.token_unit, multiple);
      if (!has_experts(param.call)) continue;
      int& most =
          param.call == CallPath::kGroupedMm ? demand.grouped_experts : demand.other_experts;
      most = std::max(most, static_cast<int>(param.shape[0]));
    }
  }
  return demand;
}

// Which experts have rows: `busy` of them, anywhere.
std::vector<int> draw_empty_experts(Choices& choices, int experts, int busy) {
  std::vector<int> empty;
  for (int expert = 0; expert < experts; ++expert) {
    const auto left = static_cast<std::uint32_t>(experts - expert);
    if (static_cast<int>(choices.below(left)) < busy) {
      --busy;
    } else {
      empty.push_back(expert);
    }
  }
  return empty;
}

// Returns how many experts of a grouped_mm have rows.
int draw_busy(Draft& draft, int experts) {
  if (experts == 0) return 0;
  const int most = std::min(experts, kMostBusyExperts);
  const bool some_idle = draft.sometimes(Feature::kEmptyExperts, 22);
  if (!some_idle && experts == most) return experts;
  // None at all is rare: where a kernel fails on no rows, nothing behind it is seen.
  const int busy = static_cast<int>(
      draft.choices.weighted<std::int64_t>({{50, draft.choices.between(1, most)},
                                            {experts > 1 ? 28 : 0, std::min(most, experts - 1)},
                                            {18, 1},
                                            {4, 0}}));
  draft.c.batch.empty_experts = draw_empty_experts(draft.choices, experts, busy);
  return busy;
}

void draw_tokens(Draft& draft, const Demand& demand, int busy) {
  Choices& choices = draft.choices;
  Batch& batch = draft.c.batch;
  const int unit = demand.token_unit;
  const int most = std::max(1, kMaxGeneratedRows / std::max(1, busy));  // rows of one expert
  batch.tokens_per_expert = static_cast<int>(
      unit > 1 ? unit * choices.weighted<int>({{85, 1}, {2 * unit <= most ? 15 : 0, 2}})
               : choices.between(1, std::min(16, most)));
  if (draft.sometimes(Feature::kIdleRanks, 2)) batch.tokens_per_expert = 0;
  if (2 * batch.tokens_per_expert <= most && draft.sometimes(Feature::kTopK, 12)) batch.top_k = 2;

  const int rows = std::max(1, batch.tokens_per_expert * batch.top_k);
  const int factor_max = std::min(3, most / rows);
  const bool uneven = draft.sometimes(Feature::kUnevenTokens, 30) && factor_max > 1;
  const bool idle = draft.sometimes(Feature::kIdleRanks, 5);
  if (!uneven && !idle) return;
  const int world_size = draft.c.mesh.world_size();
  for (int rank = 0; rank < world_size; ++rank) {
    const bool has_none = idle && choices.chance(40);
    const int factor = uneven ? static_cast<int>(choices.between(1, factor_max)) : 1;
    batch.tokens_by_rank.push_back(has_none ? 0 : factor);
  }
  // One everywhere is the default, and a case has one spelling only.
  const auto is_one = [](int factor) { return factor == 1; };
  if (std::all_of(batch.tokens_by_rank.begin(), batch.tokens_by_rank.end(), is_one)) {
    batch.tokens_by_rank.clear();
  }
}

}  // namespace

void draw_batch(Draft& draft) {
  const Demand demand = demand_of(draft.c);
  const int busy = draw_busy(draft, demand.grouped_experts);
  draw_tokens(draft, demand, std::max(busy, demand.other_experts));
  if (draft.sometimes(Feature::kSameBatch, 6)) draft.c.batch.same_on_all_ranks = true;
  if (draft.sometimes(Feature::kNormalData, 25)) draft.c.batch.values = DataKind::kNormal;
}

}  // namespace shardfuzz::detail
