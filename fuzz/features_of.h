// What a case has in it, read from the case alone: for the tests of the generator, for coverage
// tables and for reports ("what do the failing cases have in common?").
//
// Guarantees: uses() knows every Feature and shares no code with the generator. classes_of() gives
// each class once, in a fixed order; the same class is always spelled the same.
// Needs a valid case.
// Use:  for (const std::string& name : classes_of(c)) ++table[name];
#pragma once

#include <string>
#include <vector>

#include "fuzz/swarm.h"
#include "harness/case/case.h"

namespace shardfuzz {

bool uses(const Case& c, Feature feature);
Swarm features_of(const Case& c);

// "world 4", "mesh 2x2", "shard short", "pack torchao_moe_fp8:one_arg", "op unshard",
// "feature tied", ...
std::vector<std::string> classes_of(const Case& c);

}  // namespace shardfuzz
