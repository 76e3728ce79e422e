#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/oracle/properties.h"
#include "harness/oracle/test_traces.h"

namespace shardfuzz {
namespace {

TEST(P9, AHealthyTraceGivesNoFinding) {
  for (const SmallCase& shape : healthy_shapes()) {
    const Case c = small_case(shape);
    EXPECT_EQ(found_by(check_ledger, c, healthy_trace(c)), Findings{});
  }
}

TEST(P9, OtherBytesThanTheRuleBookLists) {
  const Case c = small_case({.experts = 3});
  Trace trace = healthy_trace(c);
  for (const int rank : {0, 1}) {
    change<Launch>(
        &trace, rank, "all_gather", [](Launch& launch) { launch.call.bytes = 4096; }, 1);
  }
  const Findings found = found_by(check_ledger, c, trace);
  ASSERT_EQ(found.size(), 2U) << "one a rank";
  EXPECT_EQ(found[1],
            (Finding{.property = "P9",
                     .rank = 1,
                     .group = "experts",
                     .phase = "forward",
                     .step = 0,
                     .sentence = "collective 1 of rank 1 in this operation is all_gather of 4096 "
                                 "bytes on shard instead of all_gather of 2048 bytes on shard",
                     .event = first_index<Launch>(trace, 1, "all_gather", 1)}));
}

// The sentence of rank 0's finding after its events about a kind of collective were changed.
std::string after(void (*change_it)(Trace*)) {
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  change_it(&trace);
  const Findings found = found_by(check_ledger, c, trace);
  EXPECT_EQ(found.size(), 1U);
  if (found.empty()) return "";
  EXPECT_EQ(found[0].rank, 0);
  return found[0].phase + ": " + found[0].sentence;
}

TEST(P9, AMissingAnAddedAndASwappedCollective) {
  EXPECT_EQ(after([](Trace* trace) {
              const std::int64_t last = first_index<Launch>(*trace, 0, "reduce_scatter", 1);
              std::erase_if(trace->events,
                            [last](const Event& event) { return event.index == last; });
            }),
            "backward: collective 2 of rank 0 in this operation is nothing instead of "
            "reduce_scatter of 8 "
            "bytes on shard");
  EXPECT_EQ(after([](Trace* trace) {
              Event more =
                  event_of<Launch>(trace, 0, "all_gather", 1);  // a second gather in forward
              more.index = trace->events.back().index + 1;
              trace->events.push_back(more);
            }),
            "forward: collective 2 of rank 0 in this operation is all_gather of 1024 bytes on "
            "shard instead "
            "of nothing");
  EXPECT_EQ(
      after([](Trace* trace) {
        Launch& first = std::get<Launch>(event_of<Launch>(trace, 0, "reduce_scatter", 0).payload);
        Launch& second = std::get<Launch>(event_of<Launch>(trace, 0, "reduce_scatter", 1).payload);
        std::swap(first, second);
      }),
      "backward: collective 1 of rank 0 in this operation is reduce_scatter of 8 bytes on shard "
      "instead of reduce_scatter of 1024 bytes on shard");
  EXPECT_EQ(after([](Trace* trace) {
              change<Launch>(trace, 0, "all_gather",
                             [](Launch& launch) { launch.process_group = "world"; });
            }),
            "forward: collective 0 of rank 0 in this operation is all_gather of 8 bytes on world "
            "instead of "
            "all_gather of 8 bytes on shard");
}

TEST(P9, AStepWithoutCollectivesMustHaveNone) {
  EXPECT_EQ(
      after([](Trace* trace) {
        Event more = event_of<Launch>(trace, 0, "all_gather");
        more.operation = 2;
        more.phase = "step";
        more.index = trace->events.back().index + 1;
        trace->events.push_back(more);
      }),
      "step: collective 0 of rank 0 in this operation is all_gather of 8 bytes on shard instead of "
      "nothing");
}

TEST(P9, IsSilentWhereSomethingElseSpeaks) {
  const Case c = small_case();
  Trace broken = healthy_trace(c);
  change<Launch>(&broken, 0, "all_gather", [](Launch& launch) { launch.call.bytes = 1; });
  Trace raised = broken;
  add(&raised, 1, Raised{.type = "ValueError"});
  EXPECT_EQ(found_by(check_ledger, c, raised), Findings{});
  Trace stuck = broken;
  add(&stuck, -1, Stuck{});
  EXPECT_EQ(found_by(check_ledger, c, stuck), Findings{});
  Case differs = c;
  differs.groups[1].unused_on_ranks = {1};
  EXPECT_EQ(found_by(check_ledger, differs, broken), Findings{});
}

TEST(P9, WhatIsLaunchedAfterTheLastOperationBelongsToNone) {
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  Event more = event_of<Launch>(&trace, 0, "all_gather");
  more.step = 1;
  more.operation = -1;
  more.phase = "end";
  more.index = trace.events.back().index + 1;
  trace.events.push_back(more);
  EXPECT_EQ(found_by(check_ledger, c, trace), Findings{});
}

}  // namespace
}  // namespace shardfuzz
