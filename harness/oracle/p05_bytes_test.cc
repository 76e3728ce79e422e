#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/oracle/properties.h"
#include "harness/oracle/test_traces.h"

namespace shardfuzz {
namespace {

TEST(P5, AHealthyTraceGivesNoFinding) {
  for (const SmallCase& shape : healthy_shapes()) {
    const Case c = small_case(shape);
    EXPECT_EQ(found_by(check_bytes, c, healthy_trace(c)), Findings{});
  }
}

TEST(P5, ARankThatSendsOtherBytesThanItHolds) {
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  for (const int rank : {0, 1}) {  // what is gathered is what was sent: only the sender is wrong
    for (const int nth : {0, 1}) {
      change<Unsharded>(
          &trace, rank, "w", [](Unsharded& view) { view.slots[1] = "junk"; }, nth);
    }
  }
  for (const int nth : {0, 1}) {
    change<PreAllGather>(
        &trace, 1, "w", [](PreAllGather& sent) { sent.rows_digest = "junk"; }, nth);
  }
  const Findings found = found_by(check_bytes, c, trace);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0],
            (Finding{.property = "P5",
                     .rank = 1,
                     .group = "experts",
                     .param = "w",
                     .phase = "forward",
                     .step = 0,
                     .sentence = "rank 1 sends other bytes for experts.w than its shard holds",
                     .event = first_index<PreAllGather>(trace, 1, "w")}));
}

TEST(P5, AGatheredSlotThatDiffersIsNamedWithItsRows) {
  const Case c = small_case({.experts = 5, .ranks = 4});
  Trace trace = healthy_trace(c);
  change<Unsharded>(
      &trace, 0, "w", [](Unsharded& view) { view.slots[2] = "junk"; }, 1);
  EXPECT_EQ(
      found_by(check_bytes, c, trace),
      (Findings{{.property = "P5",
                 .rank = 0,
                 .group = "experts",
                 .param = "w",
                 .phase = "backward",
                 .step = 0,
                 .sentence =
                     "the unsharded experts.w on rank 0 differs from what shard rank 2 sent in "
                     "1 rows from row 4",
                 .event = first_index<Unsharded>(trace, 0, "w", 1)}}));
}

TEST(P5, PaddingThatReachedAResultIsCounted) {
  const Case c = small_case({.experts = 3});
  Trace trace = healthy_trace(c);
  change<Unsharded>(&trace, 1, "w", [](Unsharded& view) { view.tags = 512; });
  const Findings found = found_by(check_bytes, c, trace);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "512 elements of the unsharded experts.w on rank 1 are padding (NaN)");
}

TEST(P5, WhatIsNotKnownIsNotCompared) {
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  change<PreAllGather>(&trace, 1, "w", [](PreAllGather& sent) { sent.rows_digest.clear(); });
  change<Unsharded>(&trace, 0, "w", [](Unsharded& view) { view.slots.clear(); });
  EXPECT_EQ(found_by(check_bytes, c, trace), Findings{});
}

TEST(P5, ARankThatRunsAheadIsComparedWithItsOwnGather) {
  // The bytes change between the gather of forward and that of backward; with another order of
  // turns rank 1 sends its second before rank 0 looks at its first.
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  for (const int rank : {0, 1}) {
    change<PreAllGather>(
        &trace, rank, "w",
        [rank](PreAllGather& sent) {
          sent.rows_digest = sent.local_digest = "new " + std::to_string(rank);
        },
        1);
    change<Unsharded>(
        &trace, rank, "w",
        [](Unsharded& view) {
          view.slots = {"new 0", "new 1"};
        },
        1);
  }
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(found_by(check_bytes, c, interleaved(trace, seed)), Findings{}) << "seed " << seed;
  }
  change<Unsharded>(
      &trace, 0, "w", [](Unsharded& view) { view.slots[1] = "w of 1"; }, 1);  // stale
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(found_by(check_bytes, c, interleaved(trace, seed)).size(), 1U) << "seed " << seed;
  }
}

TEST(P5, ReplicasAreApart) {
  Case c = small_case({.experts = 2, .ranks = 2});
  Trace trace = healthy_trace(small_case({.experts = 2, .ranks = 2}));
  c.mesh.shape = {2, 2};
  c.mesh.dim_names = {"replicate", "shard"};
  Trace both = trace;
  both.world_size = 4;
  for (Event event : trace.events) {
    if (event.rank < 0) continue;
    event.rank += 2;
    event.index = both.events.back().index + 1;
    if (auto* sent = std::get_if<PreAllGather>(&event.payload))
      sent->rows_digest = sent->local_digest = "r";
    if (auto* view = std::get_if<Unsharded>(&event.payload)) view->slots = {"r", "r"};
    both.events.push_back(event);
  }
  EXPECT_EQ(found_by(check_bytes, c, both), Findings{});
}

}  // namespace
}  // namespace shardfuzz
