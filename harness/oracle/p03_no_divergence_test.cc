#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/oracle/properties.h"
#include "harness/oracle/test_traces.h"

namespace shardfuzz {
namespace {

TEST(P3, AHealthyTraceGivesNoFinding) {
  for (const SmallCase& shape : healthy_shapes()) {
    const Case c = small_case(shape);
    EXPECT_EQ(found_by(check_no_divergence, c, healthy_trace(c)), Findings{});
  }
}

// Rank 1 raises before its first all-gather of w, rank 0 waits in it.
Trace one_raises(const Case& c) {
  Trace trace = healthy_trace(c);
  cut(&trace, 1, first_index<Launch>(trace, 1, "all_gather", 1));
  cut(&trace, 0, first_index<Launch>(trace, 0, "all_gather", 1) + 1);
  std::erase_if(trace.events, [](const Event& event) { return event.rank < 0; });
  add(&trace, 1,
      Raised{.type = "AssertionError", .message = "no", .group = "experts", .param = "w"});
  add(&trace, -1, Stuck{.ranks = {{0, "waits", "all_gather 1 of group shard"}, {1, "raised", ""}}});
  add(&trace, 0, Raised{.type = "RuntimeError", .message = "shardfuzz: ...", .by_harness = true});
  return trace;
}

TEST(P3, OneRaisesWhileAnotherWaits) {
  const Case c = small_case({.experts = 1});
  const Trace trace = one_raises(c);
  EXPECT_EQ(
      found_by(check_no_divergence, c, trace),
      (Findings{{.property = "P3",
                 .rank = 1,
                 .group = "experts",
                 .param = "w",
                 .phase = "forward",
                 .step = 0,
                 .sentence =
                     "rank 1 raises AssertionError in forward, rank 0 waits in all_gather 1 of "
                     "group shard",
                 .event = first_index<Raised>(trace, 1, "w")}}));
}

TEST(P3, OneRaisesWhileAnotherFinishes) {
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  cut(&trace, 1, first_index<Finished>(trace, 1, ""));
  add(&trace, 1, Raised{.type = "ValueError"});
  const Findings found = found_by(check_no_divergence, c, trace);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].sentence, "rank 1 raises ValueError in step, rank 0 finishes");
}

TEST(P3, AllRanksThatRaiseAreNoDivergence) {
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  for (const int rank : {0, 1}) {
    cut(&trace, rank, first_index<Finished>(trace, rank, ""));
    add(&trace, rank, Raised{.type = rank == 0 ? "ValueError" : "TypeError"});
  }
  EXPECT_EQ(found_by(check_no_divergence, c, trace), Findings{});
}

TEST(P3, SeveralThatRaiseAreListedAndTheFirstInProgramOrderIsTheCause) {
  const Case c = small_case({.experts = 1, .ranks = 3});
  Trace trace;
  trace.world_size = 3;
  // Rank 2 raises first by the clock but later in the program.
  const auto raise = [&](int rank, int operation, const char* type) {
    add(&trace, rank, Raised{.type = type});
    trace.events.back().step = 0;
    trace.events.back().operation = operation;
    trace.events.back().phase = operation == 0 ? "forward" : "backward";
  };
  raise(2, 1, "TypeError");
  raise(1, 0, "ValueError");
  add(&trace, -1, Stuck{.ranks = {{0, "waits", "all_gather 0 of group shard"}}});
  const Findings found = found_by(check_no_divergence, c, trace);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].sentence,
            "rank 1 raises ValueError, rank 2 raises TypeError in forward, rank 0 waits in "
            "all_gather 0 of "
            "group shard");
}

TEST(P3, NobodyRaisesAndNobodyCanGoOn) {
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  cut(&trace, 1, first_index<Launch>(trace, 1, "all_gather", 1));
  std::erase_if(trace.events, [](const Event& event) { return event.rank < 0; });
  add(&trace, -1, Stuck{.ranks = {{0, "done", ""}, {1, "waits", "all_gather 1 of group shard"}}});
  const std::int64_t stuck = trace.events.back().index;
  add(&trace, 1, Raised{.type = "RuntimeError", .message = "shardfuzz: ...", .by_harness = true});
  EXPECT_EQ(found_by(check_no_divergence, c, trace),
            (Findings{{.property = "P3",
                       .rank = 1,
                       .phase = "forward",
                       .step = 0,
                       .sentence =
                           "no rank can go on: rank 1 waits in all_gather 1 of group shard, rank 0 "
                           "finishes",
                       .event = stuck}}));
}

TEST(P3, TheStepBoundIsAnEndlessHandingOver) {
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  add(&trace, -1, Stuck{.step_bound = true, .ranks = {{0, "runs", ""}, {1, "waits", "x"}}});
  const Findings found = found_by(check_no_divergence, c, trace);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 0);
  EXPECT_EQ(found[0].sentence, "the ranks go on handing over without end (step bound reached)");
}

}  // namespace
}  // namespace shardfuzz
