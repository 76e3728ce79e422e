// possible_points: the places of the case space where a valid case can be, by trying small ones.
//
// Impossible are, for example, an int reshard on two ranks (no factor between 1 and 2), experts of
// a pack that only knows linear, no policy for a pack that needs a param_dtype. Instead of a rule
// for each, this walks through every mesh of at most world_max ranks, every number of rows up to
// where the classes repeat, every policy, and classifies what it finds as domain_axes.h does for
// cases; what is never found is impossible. Only rules of validate.h are applied: what the code
// under test refuses (uneven Shard(1), int reshard of an extension) is possible.
// Guarantees: each point once. kAnyClass on the axes of steps and operations, which go with
// everything.
#pragma once

#include <vector>

#include "fuzz/domain_axes.h"
#include "fuzz/pack_hooks.h"

namespace shardfuzz::detail {

std::vector<DomainPoint> possible_points(const std::vector<PackHook>& hooks, int world_max);

}  // namespace shardfuzz::detail
