// Passes: the small steps that minimize() tries, one after the other, until none makes a case
// smaller.
//
// Guarantees: a pass is a pure function; what it proposes keeps `pack` and `hook` of every
// parameter that is left. Proposals go from most to least aggressive: first the jump to the floor,
// then bisection. Refuses nothing: a proposal may be invalid, larger or the case itself; minimize()
// skips those. Use:  for (const Pass& pass : all_passes()) for (const Case& smaller :
// pass.propose(c, focus)) ...
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/case/case.h"

namespace shardfuzz {

// The parameter that the first finding of the failing verdict names; empty names where it has none.
struct Focus {
  std::string group, param;
};

struct Pass {
  std::string_view name;
  std::vector<Case> (*propose)(const Case& c, const Focus& focus);
};

// In the order that wins most first.
const std::vector<Pass>& all_passes();

}  // namespace shardfuzz
