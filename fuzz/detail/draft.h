// Draft: a case that is being generated, and the parts of generate() in the order in which they
// run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fuzz/choices.h"
#include "fuzz/pack_hooks.h"
#include "fuzz/swarm.h"
#include "harness/case/case.h"

namespace shardfuzz::detail {

inline constexpr std::int64_t kUsualElements = 65536;  // of all parameters together
inline constexpr int kMostExperts = 128;
inline constexpr int kMostBusyExperts = 32;  // x 16 tokens = kMaxGeneratedRows

struct Draft {
  Choices& choices;
  const Swarm& swarm;
  const Swarm& often;
  const std::vector<PackHook>& allowed;
  int world_max = 8;
  Case c;
  std::vector<PackHook> palette;  // of this case
  std::int64_t elements_left = kUsualElements;

  [[nodiscard]] bool on(Feature feature) const { return swarm.on(feature); }
  // True in `percent` of 100 draws where the feature is on, never where it is off.
  bool sometimes(Feature feature, int percent) {
    return on(feature) && choices.chance(often.on(feature) ? std::max(percent, 50) : percent);
  }
  // A weight for Choices::weighted, among others of about 100 together.
  [[nodiscard]] int weight(Feature feature, int weight_if_on) const {
    if (!on(feature)) return 0;
    return often.on(feature) ? weight_if_on + 100 : weight_if_on;
  }
};

void draw_mesh(Draft& draft);
void draw_groups(Draft& draft);      // needs the mesh
void draw_batch(Draft& draft);       // needs the groups
void draw_operations(Draft& draft);  // needs the groups
void draw_schedule(Draft& draft);
void draw_compare_meshes(Draft& draft);  // last: only cases that mean the same on every mesh

// What the parameters of one group have in common.
struct GroupPlan {
  PackHook main;
  DType dtype = DType::kFloat32;
  bool all_frozen = false;
  int frozen_percent = 0;  // of its parameters, where not all are
  bool is_first = true;    // parameter of the group: the others may differ from it in dtype
};
ParamSpec draw_param(Draft& draft, const GroupPlan& plan);

// Call paths whose dim 0 is experts: x has rows for each of them.
inline bool has_experts(CallPath call) {
  return call == CallPath::kGroupedMm || call == CallPath::kGroupedMmNoOffs ||
         call == CallPath::kBmm;
}

}  // namespace shardfuzz::detail
