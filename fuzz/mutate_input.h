// Mutations of a CaseInput, for libFuzzer's custom mutator and crossover.
//
// Guarantees: the result is a function of the arguments and the state of `random` alone, and is
// tidied (case_input.h), so that each of its draws means something. A mutation changes the input
// unless kTriesMax tries in a row changed nothing that the case takes. A crossover takes each part
// from one parent or from both.
// Use:  Random random(seed);  bytes = encode_input(mutated(decode_input(bytes), options, random));
#pragma once

#include "fuzz/case_input.h"
#include "harness/base/random.h"

namespace shardfuzz {

CaseInput mutated(const CaseInput& input, const GeneratorOptions& options, Random& random);
CaseInput crossed(const CaseInput& a, const CaseInput& b, const GeneratorOptions& options,
                  Random& random);

}  // namespace shardfuzz
