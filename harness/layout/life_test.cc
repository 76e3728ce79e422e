#include "harness/layout/life.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace shardfuzz::layout {
namespace {

LifeGroup group_of(std::int64_t bytes, Reshard reshard) {
  return {.params = {{.gather_bytes = bytes, .gather_numel = bytes / 2, .reduce_numel = bytes / 2}},
          .reshard = reshard};
}

// "shard all_gather 16 of 1" for each collective of one operation.
std::vector<std::string> lines(const Life::AfterOperation& operation) {
  std::vector<std::string> out;
  for (const auto& c : operation.collectives) {
    out.push_back(c.process_group + " " + c.kind + " " + std::to_string(c.bytes) + " of " +
                  std::to_string(c.group));
  }
  return out;
}

using Lines = std::vector<std::string>;

TEST(Life, AStepOfRootAndTwoGroups) {
  const LifeModel model{
      .shard_ranks = 2,
      .groups = {group_of(8, Reshard::kNever), group_of(16, Reshard::kAfterForward),
                 group_of(32, Reshard::kAfterForward)}};
  const Life life = live(model, {{Step::kForward}, {Step::kBackward}});
  EXPECT_EQ(lines(life.operations[0]), (Lines{"shard all_gather 8 of 0", "shard all_gather 16 of 1",
                                              "shard all_gather 32 of 2"}));
  EXPECT_EQ(life.operations[0].unsharded_bytes, (std::vector<std::int64_t>{16, 0, 0}));
  EXPECT_EQ(
      lines(life.operations[1]),
      (Lines{"shard all_gather 32 of 2", "shard all_gather 16 of 1", "shard reduce_scatter 64 of 2",
             "shard reduce_scatter 32 of 1", "shard reduce_scatter 16 of 0"}));
  EXPECT_EQ(life.operations[1].unsharded_bytes, (std::vector<std::int64_t>{0, 0, 0}));
}

TEST(Life, AWorldOfOneSendsNothingButHoldsTheSame) {
  const LifeModel model{.shard_ranks = 1, .groups = {group_of(8, Reshard::kNever)}};
  const Life life = live(model, {{Step::kForward}, {Step::kBackward}});
  EXPECT_TRUE(life.operations[0].collectives.empty());
  EXPECT_EQ(life.operations[0].unsharded_bytes[0], 8);
  EXPECT_TRUE(life.operations[1].collectives.empty());
}

TEST(Life, HooksReduceBeforeEachGatherAndValuesAreHeldBesideWhatWasGathered) {
  LifeGroup group = group_of(16, Reshard::kAfterForward);
  group.params[0].hook_reduce_bytes = 2;
  group.params[0].value_bytes = 100;
  LifeModel model{.shard_ranks = 2, .groups = {group_of(0, Reshard::kNever), group}};
  model.groups[0].params.clear();
  Life life = live(model, {{Step::kForward}, {Step::kBackward}, {Step::kUnshard, 1}});
  EXPECT_EQ(lines(life.operations[0]),
            (Lines{"shard all_reduce 2 of 1", "shard all_gather 16 of 1"}));
  EXPECT_EQ(lines(life.operations[1]), (Lines{"shard all_reduce 2 of 1", "shard all_gather 16 of 1",
                                              "shard reduce_scatter 32 of 1"}));
  EXPECT_EQ(life.operations[1].unsharded_bytes[1], 0);
  EXPECT_EQ(life.operations[2].unsharded_bytes[1], 2 * 16 + 100);
  // A rank that gathers from itself alone still reduces.
  model.shard_ranks = 1;
  life = live(model, {{Step::kForward}});
  EXPECT_EQ(lines(life.operations[0]), (Lines{"shard all_reduce 2 of 1"}));
}

TEST(Life, HsdpAddsAnAllReduceAndAccumulationDefersIt) {
  const LifeModel model{
      .shard_ranks = 2, .has_replicas = true, .groups = {group_of(8, Reshard::kNever)}};
  const Life life = live(model, {{Step::kSyncOff},
                                 {Step::kForward},
                                 {Step::kBackward},
                                 {Step::kSyncOn},
                                 {Step::kForward},
                                 {Step::kBackward}});
  EXPECT_TRUE(life.operations[2].collectives.empty());
  EXPECT_EQ(lines(life.operations[5]),
            (Lines{"shard reduce_scatter 16 of 0", "replicate all_reduce 16 of 0"}));
}

// set_requires_gradient_sync(True) ends what set_requires_all_reduce(False) began.
TEST(Life, GradientSyncSetsTheAllReduceToo) {
  const LifeModel model{
      .shard_ranks = 2, .has_replicas = true, .groups = {group_of(8, Reshard::kNever)}};
  const Life life = live(model, {{Step::kAllReduceOff},
                                 {Step::kForward},
                                 {Step::kBackward},
                                 {Step::kSyncOn},
                                 {Step::kForward},
                                 {Step::kBackward}});
  EXPECT_EQ(lines(life.operations[2]), (Lines{"shard reduce_scatter 16 of 0"}));
  EXPECT_EQ(lines(life.operations[5]),
            (Lines{"shard reduce_scatter 16 of 0", "replicate all_reduce 16 of 0"}));
}

TEST(Life, FrozenParametersAreNotReducedAndIntReshardGathersOnTheSmallerMesh) {
  LifeModel model{.shard_ranks = 4,
                  .groups = {group_of(8, Reshard::kNever), group_of(16, Reshard::kToSmallerMesh)}};
  model.groups[1].reshard_ranks = 2;
  const Life life = live(model, {{Step::kFreeze, 0, 0}, {Step::kForward}, {Step::kBackward}});
  EXPECT_EQ(lines(life.operations[2]),
            (Lines{"post_forward all_gather 32 of 1", "shard reduce_scatter 32 of 1"}));
}

TEST(Life, AnAsyncUnshardSendsAtOnceAndHoldsFromTheWaitOn) {
  const LifeModel model{.shard_ranks = 2, .groups = {group_of(8, Reshard::kNever)}};
  const Life life = live(model, {{.step = Step::kUnshard, .group = 0, .is_async = true},
                                 {.step = Step::kWaitUnshard, .group = 0},
                                 {Step::kForward}});
  EXPECT_EQ(lines(life.operations[0]), (Lines{"shard all_gather 8 of 0"}));
  EXPECT_EQ(life.operations[0].unsharded_bytes[0], 0);
  EXPECT_TRUE(life.operations[1].collectives.empty());
  EXPECT_EQ(life.operations[1].unsharded_bytes[0], 16);
  EXPECT_TRUE(life.operations[2].collectives.empty());
}

TEST(Life, AWaitAfterTheForwardThatUsedTheGatherDoesNothing) {
  LifeModel model{.shard_ranks = 2, .groups = {group_of(8, Reshard::kAfterForward)}};
  const Life life = live(model, {{.step = Step::kUnshard, .group = 0, .is_async = true},
                                 {Step::kForward},
                                 {.step = Step::kWaitUnshard, .group = 0}});
  EXPECT_EQ(lines(life.operations[0]), (Lines{"shard all_gather 8 of 0"}));
  EXPECT_TRUE(life.operations[1].collectives.empty());
  EXPECT_TRUE(life.operations[2].collectives.empty());
  EXPECT_EQ(life.operations[2].unsharded_bytes[0], 0);
}

TEST(Life, SaysWhereItNoLongerPredicts) {
  const LifeModel model{.shard_ranks = 2, .groups = {group_of(8, Reshard::kNever)}};
  const Life life = live(model, {{Step::kForward}, {Step::kForward}, {Step::kBackward}});
  EXPECT_TRUE(life.operations[0].predicted);
  EXPECT_FALSE(life.operations[1].predicted);
  EXPECT_FALSE(life.operations[2].predicted);
}

}  // namespace
}  // namespace shardfuzz::layout
