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

}  // namespace
}  // namespace shardfuzz

int main(int argc, char** argv) { return shardfuzz::run_properties(argc, argv, "max_success=400"); }
