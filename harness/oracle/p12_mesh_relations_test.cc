#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/oracle/properties.h"
#include "harness/oracle/test_traces.h"

namespace shardfuzz {
namespace {

// The finals of the small case on a mesh.
Trace ended_on(std::vector<int> mesh, Final final) {
  Trace trace;
  trace.world_size = 2;
  trace.mesh = std::move(mesh);
  final.group = "experts";
  final.param = "w";
  add(&trace, -1, final);
  trace.events.back().step = 2;
  return trace;
}

Findings related(const std::vector<Trace>& traces) {
  Findings found;
  check_mesh_relations(traces, &found);
  return found;
}

TEST(P12, EqualFinalsGiveNoFinding) {
  const Final end{.digest = "a", .exact = true};
  EXPECT_EQ(related({ended_on({2}, end), ended_on({1}, end), ended_on({2, 2}, end)}), Findings{});
  EXPECT_EQ(related({}), Findings{});
}

TEST(P12, ADigestThatDiffersIsNamedWithBothMeshes) {
  const Trace base = ended_on({2}, {.digest = "a", .exact = true, .sample = {1}});
  const Trace other = ended_on({2, 2}, {.digest = "b", .exact = true, .sample = {1}});
  EXPECT_EQ(
      related({base, base, other}),
      (Findings{{.property = "P12",
                 .group = "experts",
                 .param = "w",
                 .phase = "end",
                 .step = 2,
                 .sentence = "experts.w ends with other values on mesh [2, 2] than on mesh [2]",
                 .event = 0}}));
}

TEST(P12, WithoutExactDataValuesMustBeWithinASixtyFourthOfTheLargest) {
  const Trace base = ended_on({2}, {.digest = "a", .sample = {64, 1}});
  EXPECT_EQ(related({base, ended_on({1}, {.digest = "b", .sample = {64, 2}})}), Findings{});
  EXPECT_EQ(related({base, ended_on({1}, {.digest = "b", .sample = {64, 2.1}})}).size(), 1U);
  EXPECT_EQ(related({base, ended_on({1}, {.digest = "b", .sample = {64}})}).size(), 1U);
  EXPECT_EQ(related({base, ended_on({1}, {.digest = "b", .sample = {64, 1e300}})}).size(), 1U);
}

TEST(P12, AMeshWithoutTheParameterIsNotCompared) {
  Trace none;
  none.world_size = 1;
  EXPECT_EQ(related({ended_on({2}, {.digest = "a"}), none}), Findings{});
}

}  // namespace
}  // namespace shardfuzz
