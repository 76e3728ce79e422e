// form_text: a case without what says nothing of the bug in it: names, origin, seeds, expectation.
//
// Two minimized cases with one form are the same report. Guarantees: canonical text; equal for
// cases that differ in name, origin, data seed, schedule seed, environment, expectation or
// predicate alone.
#pragma once

#include <string>

#include "harness/case/case.h"

namespace shardfuzz {

std::string form_text(Case c);

}  // namespace shardfuzz
