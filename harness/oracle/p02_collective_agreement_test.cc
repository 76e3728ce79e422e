#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/oracle/properties.h"
#include "harness/oracle/test_traces.h"

namespace shardfuzz {
namespace {

TEST(P2, AHealthyTraceGivesNoFinding) {
  for (const SmallCase& shape : healthy_shapes()) {
    const Case c = small_case(shape);
    EXPECT_EQ(found_by(check_collective_agreement, c, healthy_trace(c)), Findings{});
  }
}

// The findings after one rank's first all-gather of w (its second in all) was changed.
Findings after(const Case& c, int rank, void (*change_it)(Launch&)) {
  Trace trace = healthy_trace(c);
  change<Launch>(&trace, rank, "all_gather", change_it, 1);
  return found_by(check_collective_agreement, c, trace);
}

TEST(P2, AnotherCountIsNamedWithWhatEachRankBrings) {
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  change<Launch>(
      &trace, 1, "all_gather", [](Launch& launch) { launch.call.count = 0, launch.call.bytes = 0; },
      1);
  EXPECT_EQ(
      found_by(check_collective_agreement, c, trace),
      (Findings{{.property = "P2",
                 .rank = 1,
                 .phase = "forward",
                 .step = 0,
                 .sentence =
                     "the ranks of group shard disagree on collective 1: rank 0 all_gather of "
                     "1024 bytes (512 x BFloat16), rank 1 all_gather of 0 bytes (0 x BFloat16)",
                 .event = first_index<Launch>(trace, 1, "all_gather", 1)}}));
}

TEST(P2, TheOddRankIsNamedAndThePlaceIsThatOfTheFirstLaunchInTheProgram) {
  // Rank 1 skips the gather of w in forward: that of backward meets rank 0's of forward.
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  const std::int64_t skipped = first_index<Launch>(trace, 1, "all_gather", 1);
  std::erase_if(trace.events, [&](const Event& event) { return event.index == skipped; });
  change<Launch>(
      &trace, 1, "all_gather", [](Launch& launch) { launch.call.count = 7; }, 1);
  const Findings found = found_by(check_collective_agreement, c, trace);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].phase, "forward");
  EXPECT_EQ(found[0].event, first_index<Launch>(trace, 0, "all_gather", 1));
}

TEST(P2, KindDtypeRootAndReductionMustAgreeToo) {
  const Case c = small_case();
  const std::vector<void (*)(Launch&)> changes{
      [](Launch& launch) { launch.call.kind = "all_reduce"; },
      [](Launch& launch) { launch.call.dtype = "Float"; },
      [](Launch& launch) { launch.call.root = 1; },
      [](Launch& launch) { launch.call.reduce = "sum"; }};
  for (const auto& change_it : changes) {
    const Findings found = after(c, 1, change_it);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].rank, 1);
  }
}

TEST(P2, BytesAndDigestsNeedNotAgree) {
  EXPECT_EQ(after(small_case(), 1, [](Launch& launch) { launch.digest = "other"; }), Findings{});
}

TEST(P2, OnlyTheFirstDisagreementOfAGroupIsNamed) {
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  for (const int nth : {1, 2}) {
    change<Launch>(
        &trace, 1, "all_gather", [](Launch& launch) { launch.call.count = 7; }, nth);
  }
  EXPECT_EQ(found_by(check_collective_agreement, c, trace).size(), 1U);
}

TEST(P2, ARankThatBroughtFewerIsNotADisagreement) {
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  cut(&trace, 1, first_index<Launch>(trace, 1, "all_gather", 1));
  EXPECT_EQ(found_by(check_collective_agreement, c, trace), Findings{}) << "that is P3";
}

TEST(P2, WithoutAnythingFromAMemberNobodyHasMet) {
  const Case c = small_case({.ranks = 3});
  Trace trace;
  trace.world_size = 3;
  for (const int rank : {0, 2}) {
    Launch launch{.process_group = "shard", .members = {0, 1, 2}};
    launch.call = {.rank = rank, .kind = "all_gather", .dtype = "Float", .count = 1 + rank};
    add(&trace, rank, launch);
  }
  EXPECT_EQ(found_by(check_collective_agreement, c, trace), Findings{});
}

TEST(P2, GroupsOfTheSameNameWithOtherMembersAreApart) {
  const Case c = small_case({.ranks = 4});
  Trace trace;
  trace.world_size = 4;
  for (int rank = 0; rank < 4; ++rank) {
    Launch launch{.process_group = "shard", .members = {rank / 2 * 2, rank / 2 * 2 + 1}};
    launch.call = {.rank = rank, .kind = "all_gather", .dtype = "Float", .count = 1 + rank / 2};
    add(&trace, rank, launch);
  }
  EXPECT_EQ(found_by(check_collective_agreement, c, trace), Findings{});
}

}  // namespace
}  // namespace shardfuzz
