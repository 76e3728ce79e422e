#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/oracle/properties.h"
#include "harness/oracle/test_traces.h"

namespace shardfuzz {
namespace {

TEST(P6, AHealthyTraceGivesNoFinding) {
  for (const SmallCase& shape : healthy_shapes()) {
    const Case c = small_case(shape);
    EXPECT_EQ(found_by(check_reference, c, healthy_trace(c)), Findings{});
  }
}

TEST(P6, ElementsThatDifferAreCountedAndTheFirstIsShown) {
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  change<Reference>(&trace, 1, "w", [](Reference& reference) {
    reference.differing = 12;
    reference.first = 7;
    reference.got = 1.5;
    reference.want = 2;
  });
  EXPECT_EQ(
      found_by(check_reference, c, trace),
      (Findings{{.property = "P6",
                 .rank = 1,
                 .group = "experts",
                 .param = "w",
                 .phase = "gradient",
                 .step = 0,
                 .sentence =
                     "12 elements of the gradient of experts.w on rank 1 differ from the plain "
                     "module's (bitwise equal by construction); the first is number 7: 1.5 "
                     "instead of 2",
                 .event = first_index<Reference>(trace, 1, "w")}}));
}

TEST(P6, TheOtherFormsOfADifference) {
  const Case c = small_case();
  const auto sentence_after = [&](void (*change_it)(Reference&)) {
    Trace trace = healthy_trace(c);
    change<Reference>(&trace, 0, "r", change_it);
    const Findings found = found_by(check_reference, c, trace);
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? "" : found[0].sentence;
  };
  EXPECT_EQ(sentence_after([](Reference& r) { r.missing = true; }),
            "the gradient of root.r on rank 0 is missing on one side (sharded or plain)");
  EXPECT_EQ(sentence_after([](Reference& r) { r.what = "output", r.differing = 1; }),
            "the output of root.r on rank 0 differs from the plain module's");
  EXPECT_EQ(sentence_after(
                [](Reference& r) { r.exact = false, r.differing = 1, r.first = 0, r.got = -1; }),
            "1 elements of the gradient of root.r on rank 0 differ from the plain module's by more "
            "than the "
            "bound; the first is number 0: -1 instead of 0");
}

TEST(P6, AnErrorWithinItsBoundIsNone) {
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  change<Reference>(&trace, 0, "r", [](Reference& reference) { reference.headroom = 0.99; });
  EXPECT_EQ(found_by(check_reference, c, trace), Findings{});
}

TEST(P6, AnOptimizerThatUpdatesAnotherTensor) {
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  change<Stepped>(&trace, 1, "w", [](Stepped& stepped) { stepped.optimizer_owns_it = false; });
  const Findings found = found_by(check_reference, c, trace);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].phase, "step");
  EXPECT_EQ(
      found[0].sentence,
      "on rank 1 the optimizer updates another tensor than the one the module uses for experts.w");
}

}  // namespace
}  // namespace shardfuzz
