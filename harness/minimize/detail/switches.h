// Switches: single changes to a minimized case that may make it pass. For predicate.cc only.
#pragma once

#include <string>
#include <vector>

#include "harness/case/case.h"
#include "harness/minimize/edits.h"

namespace shardfuzz {

struct Switch {
  std::string text;  // what the case has and `without` has not: "steps >= 2"
  Case without;
};

// Those that apply to the case, the most telling first. Settings of a group are switched on the
// group of the parameter.
std::vector<Switch> switches_for(const Case& c, ParamRef ref);

}  // namespace shardfuzz
