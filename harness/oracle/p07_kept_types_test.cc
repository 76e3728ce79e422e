#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/oracle/properties.h"
#include "harness/oracle/test_traces.h"

namespace shardfuzz {
namespace {

TEST(P7, AHealthyTraceGivesNoFinding) {
  for (const SmallCase& shape : healthy_shapes()) {
    const Case c = small_case(shape);
    EXPECT_EQ(found_by(check_kept_types, c, healthy_trace(c)), Findings{});
  }
}

// The sentence of the only finding after a change of rank 1's event about w, with its phase.
template <typename Kind>
std::string after(const Case& c, void (*change_it)(Kind&)) {
  Trace trace = healthy_trace(c);
  change<Kind>(&trace, 1, "w", change_it);
  const Findings found = found_by(check_kept_types, c, trace);
  EXPECT_EQ(found.size(), 1U);
  if (found.empty()) return "";
  EXPECT_EQ(found[0].property, "P7");
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].group, "experts");
  EXPECT_EQ(found[0].param, "w");
  EXPECT_EQ(found[0].event, first_index<Kind>(trace, 1, "w"));
  return found[0].phase + ": " + found[0].sentence;
}

TEST(P7, EachKeptThingIsNamedWithWhatItIsAndWhatItShouldBe) {
  const Case c = small_case();
  EXPECT_EQ(after<Sharded>(c, [](Sharded& e) { e.dtype = "bfloat16"; }),
            "init: on rank 1 the sharded dtype of experts.w is bfloat16 instead of float32");
  EXPECT_EQ(
      after<Sharded>(c, [](Sharded& e) { e.local_type = "Tensor"; }),
      "init: on rank 1 the type of the sharded tensor of experts.w is Tensor instead of Wrapper");
  EXPECT_EQ(after<Sharded>(c, [](Sharded& e) { e.requires_grad = false; }),
            "init: on rank 1 the requires_grad of experts.w is false instead of true");
  EXPECT_EQ(after<Unsharded>(c, [](Unsharded& e) { e.dtype = "float32"; }),
            "forward: on rank 1 the unsharded dtype of experts.w is float32 instead of bfloat16");
  EXPECT_EQ(
      after<Unsharded>(c, [](Unsharded& e) { e.type = "Tensor"; }),
      "forward: on rank 1 the type of the unsharded parameter of experts.w is Tensor instead of "
      "Wrapper");
  EXPECT_EQ(after<Unsharded>(c, [](Unsharded& e) { e.requires_grad = false; }),
            "forward: on rank 1 the unsharded requires_grad of experts.w is false instead of true");
  EXPECT_EQ(after<Gradient>(c, [](Gradient& e) { e.dtype = "bfloat16"; }),
            "backward: on rank 1 the gradient dtype of experts.w is bfloat16 instead of float32");
  EXPECT_EQ(after<Gradient>(c, [](Gradient& e) { e.type = "Wrapper"; }),
            "backward: on rank 1 the type of the local gradient of experts.w is Wrapper instead of "
            "Tensor");
  EXPECT_EQ(after<Stepped>(c, [](Stepped& e) { e.dtype = "bfloat16"; }),
            "step: on rank 1 the dtype after the step of experts.w is bfloat16 instead of float32");
  EXPECT_EQ(after<Stepped>(c, [](Stepped& e) { e.type = "Tensor"; }),
            "step: on rank 1 the type after the step of experts.w is Tensor instead of Wrapper");
  EXPECT_EQ(
      after<Stepped>(c, [](Stepped& e) { e.requires_grad = false; }),
      "step: on rank 1 the requires_grad after the step of experts.w is false instead of true");
}

TEST(P7, WhatIsLoadedMustBeAsSaved) {
  const Case c = small_case();
  for (const Loaded& loaded : {Loaded{.group = "experts", .param = "w", .same_bytes = false},
                               Loaded{.group = "experts", .param = "w", .same_type = false}}) {
    Trace trace = healthy_trace(c);
    add(&trace, 0, loaded);
    const Findings found = found_by(check_kept_types, c, trace);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].sentence,
              "on rank 0 the loaded state of experts.w is another instead of as saved");
  }
  Trace trace = healthy_trace(c);
  add(&trace, 0, Loaded{.group = "experts", .param = "w"});
  EXPECT_EQ(found_by(check_kept_types, c, trace), Findings{});
}

TEST(P7, AGradientThatIsNotThereHasNoType) {
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  change<Gradient>(&trace, 0, "w", [](Gradient& e) { e = {.group = "experts", .param = "w"}; });
  EXPECT_EQ(found_by(check_kept_types, c, trace), Findings{}) << "that is P6";
}

TEST(P7, ACaseThatFreezesMayChangeRequiresGrad) {
  Case c = small_case();
  c.operations = {{.kind = OpKind::kForward},
                  {.kind = OpKind::kBackward},
                  {.kind = OpKind::kStep},
                  {.kind = OpKind::kFreeze, .group = "experts", .param = "w"}};
  Trace trace = healthy_trace(c);
  change<Unsharded>(&trace, 1, "w", [](Unsharded& e) { e.requires_grad = false; });
  change<Stepped>(&trace, 1, "w", [](Stepped& e) { e.requires_grad = false; });
  EXPECT_EQ(found_by(check_kept_types, c, trace), Findings{});
}

}  // namespace
}  // namespace shardfuzz
