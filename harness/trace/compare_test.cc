#include "harness/trace/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/random.h"
#include "harness/trace/test_runs.h"

namespace shardfuzz {
namespace {

// ---- no difference
// -------------------------------------------------------------------------------

TEST(Compare, ATraceIsTheSameAsItself) {
  const Trace trace = small_run();
  const Comparison comparison = compare_traces(trace, trace, {});
  EXPECT_TRUE(comparison.same());
  EXPECT_EQ(sentences(comparison), Sentences{});
  EXPECT_EQ(comparison.events_compared, static_cast<std::int64_t>(trace.events.size()));
  // 4 Sharded of 9 fields, 8 PreAllGather of 8 (two empty lists), 8 Launch of 11, 8 Delivered of 5,
  // 8 Unsharded of 13 (two slots), 4 Stepped of 7, 2 Finished, 4 Reference of 10.
  EXPECT_EQ(comparison.fields_compared, 4 * 9 + 8 * (6 + 11 + 5 + 13) + 4 * 7 + 4 * 10);
  EXPECT_TRUE(compare_traces({}, {}, {}).same());
}

TEST(Compare, VersionsAndGapsInTheNumbersOfEventsMayDiffer) {
  const Trace left = small_run();
  Trace right = left;
  right.torch_version = "2.12.0";
  right.torchao_version = "0.19.0";
  for (Event& event : right.events) event.index = 3 * event.index + 1;
  EXPECT_TRUE(compare_traces(left, right, {}).same());
}

// ---- missing events
// ------------------------------------------------------------------------------

TEST(Compare, AMissingEventIsOneDifference) {
  const Trace trace = small_run();
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    Trace other = trace;
    erase(&other, i);
    const Comparison fewer = compare_traces(trace, other, {});
    ASSERT_EQ(fewer.differences_found, 1)
        << event_text(trace.events[i]) << ::testing::PrintToString(sentences(fewer));
    EXPECT_EQ(fewer.differences[0].field, "missing");
    EXPECT_EQ(fewer.differences[0].left_index, trace.events[i].index);
    EXPECT_EQ(fewer.differences[0].right_index, -1);
    const Comparison more = compare_traces(other, trace, {});
    ASSERT_EQ(more.differences_found, 1);
    EXPECT_EQ(more.differences[0].field, "missing");
    EXPECT_EQ(more.differences[0].left_index, -1);
    EXPECT_EQ(more.differences[0].right_index, trace.events[i].index);
    EXPECT_EQ(more.events_compared, static_cast<std::int64_t>(trace.events.size()) - 1);
  }
}

TEST(Compare, AMissingEventSaysWhatItIs) {
  Trace left = small_run();
  add(&left, 1, Raised{.type = "RuntimeError", .message = "no room", .param = "w1"});
  Trace right = small_run();
  erase(&right, find<Delivered>(right, 0, 1));
  erase(&right, find<Launch>(right, 0, 1));
  EXPECT_EQ(sentences(compare_traces(left, right, {})),
            (Sentences{"rank 0, step 0, forward: launch shard all_gather 1 of 1024 bytes is on "
                       "real only",
                       "rank 0, step 0, forward: delivered shard all_gather 1 is on real only",
                       "rank 1, step 0, forward: raised w1 RuntimeError \"no room\" is on real "
                       "only"}));
}

TEST(Compare, WhatFollowsAMissingEventIsStillCompared) {
  const Trace left = small_run();
  Trace right = left;
  get<Stepped>(&right, find<Stepped>(right, 0)).digest = "other";
  erase(&right, find<Unsharded>(right, 0));
  EXPECT_EQ(sentences(compare_traces(left, right, {})),
            (Sentences{"rank 0, step 0, forward: unsharded experts.w1 is on real only",
                       "rank 0, step 0, step: stepped experts.w1 digest is \"\" on real, other on "
                       "native"}));
}

TEST(Compare, OfEqualEventsTheRightOneIsMissing) {
  Trace left{.world_size = 1, .mesh = {1}};
  for (int i = 0; i < 10; ++i) add(&left, 0, launch(0, i, 100 + i));
  Trace right = left;
  erase(&right, 4);
  for (std::size_t i = 4; i < 9; ++i) get<Launch>(&right, i).sequence -= 1;
  EXPECT_EQ(sentences(compare_traces(left, right, {})),
            (Sentences{"rank 0, step 0, forward: launch shard all_gather 4 of 208 bytes is on real "
                       "only"}));
}

TEST(Compare, ANameThatChangedIsNoMissingEvent) {
  const Trace left = small_run();
  Trace right = left;
  get<Unsharded>(&right, find<Unsharded>(right, 0)).param = "w3";
  EXPECT_EQ(sentences(compare_traces(left, right, {})),
            (Sentences{"rank 0, step 0, forward: unsharded experts.w1 param is w1 on real, w3 on "
                       "native"}));
}

TEST(Compare, NamesThatChangedInAnotherOrderAreNoDifferenceOfOrder) {
  Trace left{.world_size = 1, .mesh = {1}};
  add(&left, 0, unsharded("w1"));
  add(&left, 0, Storage{.group = "experts", .param = "w1"});
  Trace right{.world_size = 1, .mesh = {1}};
  add(&right, 0, Storage{.group = "experts", .param = "w2"});
  add(&right, 0, unsharded("w2"));
  EXPECT_EQ(sentences(compare_traces(left, right, {})),
            (Sentences{"rank 0, step 0, forward: unsharded experts.w1 param is w1 on real, w2 on "
                       "native",
                       "rank 0, step 0, forward: storage experts.w1 param is w1 on real, w2 on "
                       "native"}));
}

// ---- sequence numbers
// ----------------------------------------------------------------------------

TEST(Compare, NumbersGoOnShiftedAfterACollectiveThatOneSideHasMore) {
  const Trace left = small_run();
  Trace right = left;
  for (Event& event : right.events) {
    if (event.rank != 0 || event.step != 1) continue;
    if (auto* launch = std::get_if<Launch>(&event.payload)) ++launch->sequence;
    if (auto* delivered = std::get_if<Delivered>(&event.payload)) ++delivered->sequence;
  }
  EXPECT_EQ(sentences(compare_traces(left, right, {})),
            (Sentences{"rank 0, step 1, forward: launch shard all_gather sequence is 2 on real, 3 "
                       "on native"}))
      << "a shift without a reason is told once";
  Event extra = right.events[find<Launch>(right, 0, 1)];
  std::get<Launch>(extra.payload).sequence = 2;
  std::get<Launch>(extra.payload).call.kind = "all_reduce";
  right.events.insert(right.events.begin() + static_cast<std::ptrdiff_t>(find<Stepped>(right, 0)),
                      extra);
  EXPECT_EQ(sentences(compare_traces(left, right, {})),
            (Sentences{"rank 0, step 0, forward: launch shard all_reduce 2 of 1024 bytes is on "
                       "native only"}));
}

TEST(Compare, ACollectiveWithoutANumberOnOneSideIsToldAndTheNextAreShifted) {
  const Trace left = small_run();
  Trace right = left;
  get<Launch>(&right, find<Launch>(right, 0)).sequence = -1;
  for (int nth = 1; nth < 4; ++nth) {
    --get<Launch>(&right, find<Launch>(right, 0, nth)).sequence;
    --get<Delivered>(&right, find<Delivered>(right, 0, nth)).sequence;
  }
  erase(&right, find<Delivered>(right, 0));
  EXPECT_EQ(sentences(compare_traces(left, right, {})),
            (Sentences{"rank 0, step 0, forward: launch shard all_gather sequence is 0 on real, -1 "
                       "on native",
                       "rank 0, step 0, forward: delivered shard all_gather 0 is on real only"}));
}

// ---- order
// ---------------------------------------------------------------------------------------

TEST(Compare, TheOrderOfTheRanksCountsOnlyWhereItIsAsked) {
  const Trace left = small_run();
  Trace right = left;
  const std::size_t at = find<Delivered>(right, 0);  // and unsharded, then those of rank 1
  std::rotate(right.events.begin() + static_cast<std::ptrdiff_t>(at),
              right.events.begin() + static_cast<std::ptrdiff_t>(at) + 2,
              right.events.begin() + static_cast<std::ptrdiff_t>(at) + 4);
  for (std::size_t i = 0; i < right.events.size(); ++i) {
    right.events[i].index = static_cast<std::int64_t>(i);
  }
  const Comparison ordered = compare_traces(left, right, {.global_order = true});
  EXPECT_EQ(sentences(ordered),
            (Sentences{"rank 0, step 0, forward: the order of the ranks differs: next is rank 0 "
                       "delivered shard all_gather 0 (event 8) on real, rank 1 delivered shard "
                       "all_gather 0 (event 8) on native"}));
  EXPECT_EQ(ordered.differences[0].name, "trace.order");
  EXPECT_TRUE(compare_traces(left, right, {.global_order = false}).same());
  const CompareOptions excepted{.exceptions = {{"trace.order", "threads"}}};
  EXPECT_TRUE(compare_traces(left, right, excepted).same());
}

TEST(Compare, TheOrderOfTheRanksIsThatOfTheEventsThatBothHave) {
  const Trace left = small_run();
  Trace right = left;
  std::swap(right.events[find<Finished>(right, 0)], right.events[find<Finished>(right, 1)]);
  erase(&right, find<Unsharded>(right, 1));
  const Comparison comparison = compare_traces(left, right, {});
  ASSERT_EQ(comparison.differences_found, 2);
  EXPECT_EQ(comparison.differences[0].name, "unsharded.missing");
  EXPECT_EQ(comparison.differences[1].name, "trace.order");
  EXPECT_EQ(comparison.differences[1].left_index, left.events[find<Finished>(left, 0)].index);
  EXPECT_EQ(comparison.differences[1].right_index, left.events[find<Finished>(left, 1)].index);
}

TEST(Compare, AnyInterleavingOfTheRanksIsTheSameWithoutGlobalOrder) {
  const Trace left = small_run();
  Random random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::vector<Event>> lists(2);
    for (const Event& event : left.events) lists.at(std::size_t(event.rank)).push_back(event);
    Trace right{.world_size = 2, .mesh = {2}};
    std::size_t taken[2] = {0, 0};
    while (right.events.size() < left.events.size()) {
      const std::size_t rank = random.below(2);
      if (taken[rank] < lists[rank].size()) right.events.push_back(lists[rank][taken[rank]++]);
    }
    EXPECT_TRUE(compare_traces(left, right, {.global_order = false}).same());
    EXPECT_EQ(compare_traces(left, right, {}).differences_found, left == right ? 0 : 1);
  }
}

TEST(Compare, AnEventThatMovedAmongThoseOfItsRankIsTold) {
  const Trace left = small_run();
  Trace right = left;
  const std::size_t at = find<Unsharded>(right, 1);
  get<Unsharded>(&right, at).tags = 2;
  std::swap(right.events[at], right.events[find<Delivered>(right, 1)]);
  const Comparison comparison = compare_traces(left, right, {.global_order = false});
  EXPECT_EQ(comparison.events_compared, static_cast<std::int64_t>(left.events.size()));
  ASSERT_EQ(comparison.differences_found, 2) << ::testing::PrintToString(sentences(comparison));
  EXPECT_EQ(comparison.differences[0].name, "unsharded.tags");
  EXPECT_EQ(comparison.differences[1].name, "unsharded.order");
  EXPECT_EQ(
      comparison.differences[1].sentence(kSides),
      "rank 1, step 0, forward: unsharded experts.w1 comes at event 11, after delivered shard "
      "all_gather 0 on real, at event 11, after launch shard all_gather 0 of 1024 bytes on "
      "native");
}

TEST(Compare, WithoutGlobalOrderTheOrderWithinARankStillCounts) {
  const Trace left = small_run();
  Trace right = left;
  // Two whole operations in turn: every place has the events that it had.
  const auto swap_steps = [](Event& event) { event.step = event.step < 0 ? -1 : 1 - event.step; };
  for (Event& event : right.events) swap_steps(event);
  EXPECT_FALSE(compare_traces(left, right, {.global_order = false}).same());
}

TEST(Compare, TheFirstDifferenceIsTheFirstByStepAndOperation) {
  const Trace left = small_run();
  Trace right = left;
  // Written last, but about step 0.
  get<Reference>(&right, find<Reference>(right, 0)).differing = 1;
  get<Stepped>(&right, find<Stepped>(right, 0, 1)).dtype = "x";
  get<Unsharded>(&right, find<Unsharded>(right, 1, 2)).tags = 1;
  get<Unsharded>(&right, find<Unsharded>(right, 1, 1)).tags = 1;
  get<Unsharded>(&right, find<Unsharded>(right, 0, 1)).tags = 1;
  add(&right, -1, Stuck{}, {-1, -1, ""});
  std::vector<std::string> order;
  for (const Difference& difference : compare_traces(left, right, {}).differences) {
    order.push_back(std::to_string(difference.step) + " " + std::to_string(difference.rank) + " " +
                    difference.name);
  }
  EXPECT_EQ(order, (Sentences{"0 0 unsharded.tags", "0 1 unsharded.tags", "0 0 reference.differing",
                              "1 1 unsharded.tags", "1 0 stepped.dtype", "-1 -1 stuck.missing"}));
}

// ---- the world
// -----------------------------------------------------------------------------------

TEST(Compare, TracesOfTwoWorldsAreNotComparedFurther) {
  const Trace left = small_run();
  Trace right{.world_size = 4, .mesh = {2, 2}, .invalid = "no such pack"};
  const Comparison comparison = compare_traces(left, right, {});
  EXPECT_EQ(sentences(comparison),
            (Sentences{"world_size is 2 on real, 4 on native",
                       "mesh is [2] on real, [2, 2] on "
                       "native",
                       "invalid is \"\" on real, \"no such pack\" on native"}));
  EXPECT_EQ(comparison.events_compared, 0);
  const CompareOptions excepted{.exceptions = {{"trace.world_size", "tried out"},
                                               {"trace.mesh", "tried out"},
                                               {"trace.invalid", "tried out"}}};
  EXPECT_EQ(compare_traces(left, right, excepted).differences_found,
            static_cast<std::int64_t>(left.events.size()));
}

// ---- limits
// --------------------------------------------------------------------------------------

TEST(Compare, TheFirstDifferencesOfEachRankAreKeptAndAllAreCounted) {
  Trace left{.world_size = 20, .mesh = {20}};
  const int each = 2 * static_cast<int>(kMaxDifferencesPerRank);
  for (int i = 0; i < each; ++i) {
    for (int rank = 0; rank < left.world_size; ++rank) {
      if (rank < 2 || i == 0) add(&left, rank, unsharded("w" + std::to_string(i)));
    }
  }
  Trace right = left;
  for (Event& event : right.events) std::get<Unsharded>(event.payload).tags = 1;
  const Comparison comparison = compare_traces(left, right, {});
  EXPECT_EQ(comparison.differences_found, 2 * each + 18);
  ASSERT_EQ(comparison.differences.size(), 2 * kMaxDifferencesPerRank + 18);
  EXPECT_EQ(comparison.differences.back().subject, "experts.w7");

  for (int rank = 2; rank < left.world_size; ++rank) {
    for (int i = 0; i < each; ++i) {
      add(&left, rank, unsharded("v" + std::to_string(i)));
      add(&right, rank, unsharded("u" + std::to_string(i)));
    }
  }
  EXPECT_EQ(compare_traces(left, right, {}).differences.size(), kMaxDifferences);
}

TEST(Compare, AnEarlyDifferenceThatIsWrittenLateIsNotCrowdedOut) {
  Trace left{.world_size = 1, .mesh = {1}};
  for (int i = 0; i < 100; ++i)
    add(&left, 0, unsharded("w" + std::to_string(i)), {1, 0, "forward"});
  add(&left, 0, Reference{.group = "experts", .param = "w1"}, {0, -1, "reference"});
  Trace right = left;
  for (int i = 0; i < 100; ++i) get<Unsharded>(&right, std::size_t(i)).tags = 1;
  get<Reference>(&right, 100).differing = 1;
  const Comparison comparison = compare_traces(left, right, {});
  EXPECT_EQ(comparison.differences_found, 101);
  EXPECT_EQ(comparison.differences.size(), kMaxDifferencesPerRank);
  EXPECT_EQ(comparison.differences.front().name, "reference.differing");
}

}  // namespace
}  // namespace shardfuzz
