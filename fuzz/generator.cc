// generate(): the order of its parts, and the small ones: mesh, schedule, other meshes.
#include "fuzz/generator.h"

#include <algorithm>

#include "fuzz/detail/draft.h"
#include "fuzz/pack_hooks.h"
#include "harness/case/validate.h"

namespace shardfuzz {
namespace detail {
namespace {

// Most bugs of sharding show on 2 to 4 ranks, and those cases run fastest; 1 is a special case of
// FSDP2 (no collectives, no reshard of a lone root) and must stay in the sweep.
constexpr int kWorldWeights[kMaxWorldSize] = {9, 28, 22, 22, 4, 4, 3, 8, 1, 1, 1, 1, 1, 1, 1, 1};

bool draw_hsdp(Draft& draft, int world_max) {
  struct Shape {
    int weight, replicate, shard;
  };
  static constexpr Shape kShapes[] = {{40, 2, 2}, {20, 2, 1}, {20, 1, 2},
                                      {15, 2, 4}, {8, 2, 3},  {6, 4, 2}};
  std::vector<Weighted<const Shape*>> fitting;
  for (const Shape& shape : kShapes) {
    if (shape.replicate * shape.shard <= world_max) fitting.push_back({shape.weight, &shape});
  }
  if (fitting.empty()) return false;
  const Shape* shape = draft.choices.weighted(fitting);
  draft.c.mesh = {.shape = {shape->replicate, shape->shard}, .dim_names = {"replicate", "shard"}};
  return true;
}

}  // namespace

void draw_mesh(Draft& draft) {
  const int world_max =
      std::min(draft.world_max, draft.on(Feature::kLargeWorld) ? kMaxWorldSize : 4);
  if (draft.sometimes(Feature::kHsdp, 14) && draw_hsdp(draft, world_max)) return;
  std::vector<Weighted<int>> worlds;
  for (int world = 1; world <= world_max; ++world) {
    worlds.push_back({kWorldWeights[world - 1], world});
  }
  draft.c.mesh.shape = {draft.choices.weighted(worlds)};
}

void draw_schedule(Draft& draft) {
  Schedule& schedule = draft.c.schedule;
  schedule.policy = draft.choices.weighted<SchedulePolicy>(
      {{45, SchedulePolicy::kRoundRobin},
       {draft.weight(Feature::kRandomSchedule, 30), SchedulePolicy::kRandom},
       {draft.weight(Feature::kPrioritySchedule, 25), SchedulePolicy::kPriority}});
  if (schedule.policy != SchedulePolicy::kRoundRobin) {
    schedule.seed = draft.choices.below(1U << 31);
  }
  if (schedule.policy == SchedulePolicy::kPriority) {
    schedule.change_points = static_cast<int>(draft.choices.between(1, 5));
  }
  if (draft.sometimes(Feature::kLateDelivery, 40)) schedule.delivery = Delivery::kLate;
  if (!draft.sometimes(Feature::kDelays, 12)) return;
  for (int rank = 0; rank < draft.c.mesh.world_size(); ++rank) {
    schedule.delays.push_back(static_cast<int>(draft.choices.between(0, 8)));
  }
}

namespace {

// Whether the numbers of the case mean the same for another number of ranks.
bool means_the_same_anywhere(const Case& c) {
  if (!c.batch.tokens_by_rank.empty() || !c.schedule.delays.empty()) return false;
  const auto bound_to_mesh = [](const GroupSpec& group) {
    return !group.unused_on_ranks.empty() ||
           std::holds_alternative<int>(group.reshard_after_forward) ||
           std::any_of(group.params.begin(), group.params.end(),
                       [](const ParamSpec& param) { return param.shard_dim != 0; });
  };
  return std::none_of(c.groups.begin(), c.groups.end(), bound_to_mesh) &&
         std::none_of(c.operations.begin(), c.operations.end(),
                      [](const Operation& op) { return op.kind == OpKind::kAllReduce; });
}

}  // namespace

void draw_compare_meshes(Draft& draft) {
  if (!draft.sometimes(Feature::kCompareMeshes, 6) || !means_the_same_anywhere(draft.c)) return;
  std::vector<std::vector<int>> meshes{{1}, {2}, {3}, {4}};
  if (draft.on(Feature::kHsdp)) meshes.push_back({2, 2});
  std::erase_if(meshes, [&](const auto& shape) {
    int world_size = 1;
    for (const int size : shape) world_size *= size;
    return shape == draft.c.mesh.shape || world_size > draft.world_max;
  });
  if (meshes.empty()) return;
  const std::size_t count = 1 + draft.choices.below(2);
  while (draft.c.compare_meshes.size() < count && !meshes.empty()) {
    const auto shape = draft.choices.pick(meshes);
    std::erase(meshes, shape);
    draft.c.compare_meshes.push_back(shape);
  }
  // Only data that does not depend on the number of ranks, and adds up exactly, can be compared.
  draft.c.batch.same_on_all_ranks = true;
  draft.c.batch.values = DataKind::kInteger;
}

}  // namespace detail

Case generate(Choices& choices, const GeneratorOptions& options) {
  SHARDFUZZ_CHECK(options.world_max >= 1 && options.world_max <= kMaxWorldSize,
                  "world_max {} is not within 1..{}", options.world_max, kMaxWorldSize);
  const auto allowed = parse_pack_hooks(options.packs);
  detail::Draft draft{.choices = choices,
                      .swarm = options.swarm,
                      .often = options.often,
                      .allowed = allowed.value(),
                      .world_max = options.world_max};
  draft.c.origin.kind = "fuzz";
  detail::draw_mesh(draft);
  choices.next_part();
  detail::draw_groups(draft);
  choices.next_part();
  detail::draw_batch(draft);
  choices.next_part();
  detail::draw_operations(draft);
  choices.next_part();
  if (draft.sometimes(Feature::kMomentum, 25)) draft.c.optimizer.kind = OptimizerKind::kSgdMomentum;
  draft.c.steps =
      choices.weighted<int>({{40, 1}, {35, 2}, {25, 3}, {draft.weight(Feature::kManySteps, 3), 5}});
  choices.next_part();
  detail::draw_schedule(draft);
  choices.next_part();
  draft.c.seed = choices.below(1U << 31);
  detail::draw_compare_meshes(draft);
  return std::move(draft.c);
}

}  // namespace shardfuzz
