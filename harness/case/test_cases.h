// Cases for tests: a good one that uses nearly every field, one that uses every field, random ones,
// and the table of rules that validate() enforces, each with a case that breaks it.
#pragma once

#include <string>
#include <vector>

#include "harness/base/random.h"
#include "harness/case/case.h"

namespace shardfuzz {

// Valid; every field but tensor_parallel_dim differs from its default somewhere.
Case good_case();

// Readable but not valid: good_case with tensor_parallel_dim, so that no field is left out.
Case full_case();

// Any readable case, mostly not a valid one.
Case random_case(Random* random);

struct BrokenCase {
  std::string name;   // of the rule; safe in a file name
  Case c;             // good_case with one change
  std::string where;  // the JSON pointer that validate() must give
  std::string word;   // that `what` or `what_to_do` must hold
};
std::vector<BrokenCase> broken_cases();

}  // namespace shardfuzz
