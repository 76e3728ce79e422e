// Legal programs of a sharded parameter's life on the native target, walked along the abstract
// model (parameter_life.h) and judged by the oracle.
#include <fmt/format.h>

#include <string>

#include "fuzz/properties/life_programs.h"
#include "fuzz/properties/life_walk.h"
#include "fuzz/properties/property.h"
#include "harness/case/validate.h"
#include "harness/native/native_target.h"
#include "harness/native/supported.h"
#include "harness/oracle/judge.h"

namespace shardfuzz {
namespace {

native::NativeTarget& faithful() {
  static native::NativeTarget target;
  return target;
}

RC_GTEST_PROP(ParameterLife, ALegalProgramGoesAsTheModelSaysOnTheTwin, ()) {
  const Case c = life_case(any_seed());
  RC_ASSERT(validate(c).ok());
  RC_ASSERT(!native::unsupported(c).has_value());
  const Trace trace = faithful().run(c);
  const Departure found = walk(c, trace);
  if (!found.what.empty()) RC_FAIL(found.sentence + "\n" + compact_text(c));
  const Verdict verdict = judge(c, trace);
  if (verdict.kind != VerdictKind::kPass) RC_FAIL(verdict.sentence + "\n" + compact_text(c));
}

// ---- the model can fail -------------------------------------------------------------------------

constexpr std::uint64_t kProgramsMax = 400;

// The first of the programs 0, 1, ... on which the walk departs; its departure is empty where none
// does.
struct Caught {
  std::uint64_t program = 0;
  Departure departure;
};

Caught catch_bug(native::Bug bug) {
  native::NativeTarget target({.bug = bug});
  Caught caught;
  for (; caught.program < kProgramsMax && caught.departure.what.empty(); ++caught.program) {
    const Case c = life_case(caught.program);
    caught.departure = walk(c, target.run(c));
  }
  return caught;
}

TEST(ParameterLife, PrintsPlanted) {
  for (std::size_t i = 1; i < native::kBugNames.size(); ++i) {
    const Caught caught = catch_bug(static_cast<native::Bug>(i));
    fmt::print("{} {} {}: {}\n", native::kBugNames[i], caught.program, caught.departure.what,
               caught.departure.sentence);
  }
}

}  // namespace
}  // namespace shardfuzz

int main(int argc, char** argv) { return shardfuzz::run_properties(argc, argv, "max_success=400"); }
