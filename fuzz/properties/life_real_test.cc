// The same programs and the same model as life_native_test.cc, on real FSDP2 through one worker.
//   RC_PARAMS="max_success=500 seed=7" SHARDFUZZ_WORKER=... ctest -R life_real_test
// The worker is named by SHARDFUZZ_WORKER, SHARDFUZZ_PYTHON and SHARDFUZZ_HOME; CTest sets them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "fuzz/properties/life_programs.h"
#include "fuzz/properties/life_walk.h"
#include "fuzz/properties/property.h"
#include "fuzz/runner.h"
#include "fuzz/twin.h"
#include "harness/case/validate.h"

namespace shardfuzz {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The worker starts with the first case and serves all of them.
Runner& real() {
  static const std::unique_ptr<Runner> runner =
      std::make_unique<Runner>(RunnerOptions{.worker = variable("SHARDFUZZ_WORKER"),
                                             .python = variable("SHARDFUZZ_PYTHON"),
                                             .home = variable("SHARDFUZZ_HOME"),
                                             .worker_count = 1});
  return *runner;
}

Runner& twin() {
  static const std::unique_ptr<Runner> runner = std::make_unique<Runner>(RunnerOptions{
      .target = Target::kNative, .worker = variable("SHARDFUZZ_NATIVE_WORKER"), .worker_count = 1});
  return *runner;
}

RC_GTEST_PROP(ParameterLife, ALegalProgramGoesAsTheModelSaysOnRealFsdp2, ()) {
  const Case c = life_case(any_seed());
  RC_ASSERT(validate(c).ok());
  const Result<Evaluated> ran = real().evaluate(c);
  if (!ran) RC_FAIL(ran.error().text());
  if (!ran->trace) RC_FAIL(ran->verdict.sentence + "\n" + compact_text(c));
  const Departure found = walk(c, *ran->trace);
  if (!found.what.empty()) RC_FAIL(found.sentence + "\n" + compact_text(c));
  if (ran->verdict.kind != VerdictKind::kPass) {
    RC_FAIL(ran->verdict.sentence + "\n" + compact_text(c));
  }
}

// What the format refuses is refused before a worker sees it; everything else runs on both, and
// both say the same of it, event by event, however little sense it makes.
RC_GTEST_PROP(ParameterLife, AnyOrderOfOperationsIsRefusedOrGoesAlikeOnBothTargets, ()) {
  const Case c = wild_case(any_seed());
  RC_ASSERT(validate(c).ok() != is_refused_program(c));
  if (is_refused_program(c)) return;
  const Result<Compared> compared = compare_case(real(), twin(), c);
  if (!compared) RC_FAIL(compared.error().text());
  if (!compared->name.empty()) RC_FAIL(compared->sentence + "\n" + compact_text(c));
}

}  // namespace
}  // namespace shardfuzz

int main(int argc, char** argv) { return shardfuzz::run_properties(argc, argv, "max_success=30"); }
