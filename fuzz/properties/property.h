// What the property tests share: laws over random input, which RapidCheck draws.
//
// Guarantees: every run draws the same input (run_properties fixes the seed), so CTest is
// repeatable. To explore further, run a test program with RapidCheck's own variable:
//   RC_PARAMS="seed=7 max_success=10000" build/fuzz/properties/layout_properties_test
// A failure prints what was drawn and the RC_PARAMS="reproduce=..." that draws it again.
// RapidCheck's shrinking knows no limit and nothing of what makes a case valid, so a case comes
// from one seed that is not shrunk (the minimizer's own laws are tested by minimize_properties_*);
// only small numbers and short programs are left to RapidCheck.
// Use:  RC_GTEST_PROP(CaseFile, IsReadBack, ()) { const Case c = generated_case(any_seed()); ... }
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <ostream>

#include "fuzz/choices.h"
#include "fuzz/generator.h"
#include "harness/base/random.h"
#include "harness/case/case_json.h"

namespace shardfuzz {

// RapidCheck prints drawn and compared cases with this.
inline void showValue(const Case& c, std::ostream& out) {  // NOLINT(readability-identifier-naming)
  out << compact_text(c);
}

// A draw from all 64-bit numbers: RapidCheck's own numbers start small and are shrunk.
inline std::uint64_t any_seed() {
  return *rc::gen::noShrink(rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<std::uint64_t>()));
}

// A number in [first, last], both included, each as likely as another from the first test on.
inline int any_int(int first, int last) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(first, last + 1));
}

// A valid case, with features drawn as a fuzz run draws them.
Case generated_case(std::uint64_t seed, GeneratorOptions options = {});

// The main program of a test. `defaults` are RapidCheck's parameters where the caller's RC_PARAMS
// say nothing else: "max_success=1000" for laws that are quick to check.
int run_properties(int argc, char** argv, const char* defaults);

}  // namespace shardfuzz
