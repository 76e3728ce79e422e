#include "harness/minimize/edits.h"

#include <gtest/gtest.h>

#include "harness/case/validate.h"
#include "harness/minimize/detail/pass_parts.h"
#include "harness/minimize/test_cases.h"

namespace shardfuzz {
namespace {

// root{a, b}, left{a}, right{c tied to root.b}, and operations on each.
Case three_groups() {
  Case c;
  c.mesh.shape = {4};
  const auto param = [](const char* name) {
    ParamSpec spec;
    spec.name = name;
    spec.shape = {4, 2, 2};
    return spec;
  };
  c.groups.resize(3);
  c.groups[0].name = "root";
  c.groups[0].params = {param("a"), param("b")};
  c.groups[1].name = "left";
  c.groups[1].params = {param("a")};
  c.groups[1].reshard_after_forward = true;
  c.groups[1].unused_on_ranks = {3};
  c.groups[2].name = "right";
  c.groups[2].params = {param("c")};
  c.groups[2].params[0].tied_to = "root.b";
  c.batch.empty_experts = {0, 3};
  c.batch.tokens_by_rank = {1, 2, 3, 4};
  c.operations = {{.kind = OpKind::kUnshard, .group = "left", .param = {}},
                  {.kind = OpKind::kFullTensor, .group = "left", .param = "a"},
                  {.kind = OpKind::kFullTensor, .group = "root", .param = "a"}};
  return c;
}

TEST(Edits, TheExampleIsValid) {
  EXPECT_TRUE(validate(three_groups()).ok()) << validate(three_groups()).error().text();
}

TEST(Edits, DroppingAParamDropsWhatNamesIt) {
  Case c = three_groups();
  drop_params(&c, {{0, 1}, {1, 0}});
  ASSERT_EQ(c.groups.size(), 2u);  // left lost its only parameter
  EXPECT_EQ(c.groups[1].name, "right");
  EXPECT_EQ(c.groups[1].params[0].tied_to, "");
  ASSERT_EQ(c.operations.size(), 1u);
  EXPECT_EQ(c.operations[0].group, "root");
}

TEST(Edits, AnEmptyRootStays) {
  Case c = three_groups();
  drop_params(&c, {{0, 0}, {0, 1}});
  EXPECT_EQ(c.groups.size(), 3u);
  EXPECT_TRUE(c.groups[0].params.empty());
}

TEST(Edits, OperationsNeverTurnIntoTheDefaultFour) {
  Case c = three_groups();
  c.operations.resize(2);
  drop_groups(&c, 1, 3);
  ASSERT_EQ(c.operations.size(), 1u);
  EXPECT_EQ(c.operations[0].kind, OpKind::kForward);
}

TEST(Edits, KeepOnlyMovesIntoTheRootWithItsSettingsAndOperations) {
  Case c = three_groups();
  keep_only(&c, {1, 0}, Place::kRoot);
  ASSERT_EQ(c.groups.size(), 1u);
  EXPECT_EQ(c.groups[0].name, "root");
  EXPECT_EQ(c.groups[0].reshard_after_forward, ReshardAfterForward(true));
  EXPECT_TRUE(c.groups[0].unused_on_ranks.empty());
  // The operation on root.a concerned the dropped parameter of the same name.
  ASSERT_EQ(c.operations.size(), 2u);
  EXPECT_EQ(c.operations[0].group, "root");
  EXPECT_EQ(c.operations[1].group + "." + c.operations[1].param, "root.a");
  EXPECT_TRUE(validate(c).ok());
}

TEST(Edits, KeepOnlyNestedLeavesAnEmptyRoot) {
  Case c = three_groups();
  keep_only(&c, {1, 0}, Place::kNested);
  ASSERT_EQ(c.groups.size(), 2u);
  EXPECT_TRUE(c.groups[0].params.empty());
  EXPECT_EQ(c.groups[1].name, "left");
  EXPECT_EQ(c.groups[1].unused_on_ranks, std::vector<int>{3});
  EXPECT_EQ(c.operations.size(), 2u);
}

TEST(Edits, OperationsOnWhatIsDroppedCanBeDoneToAnotherParameter) {
  Case c = three_groups();
  retarget_operations(&c, {{1, 0}}, {0, 1});  // left.a, which is all that left has
  EXPECT_EQ(c.operations[0].group, "root");
  EXPECT_EQ(c.operations[0].param, "");
  EXPECT_EQ(c.operations[1].group + "." + c.operations[1].param, "root.b");
  EXPECT_EQ(c.operations[2].group + "." + c.operations[2].param, "root.a") << "not dropped";
  retarget_operations(&c, {{0, 0}, {0, 1}}, {2, 0});
  EXPECT_EQ(c.operations[0].group, "root") << "the root stays, whatever it loses";
  EXPECT_EQ(c.operations[2].group + "." + c.operations[2].param, "right.c");
  EXPECT_TRUE(validate(c).ok());
}

TEST(Edits, AParameterMovesIntoTheRootWithItsOperations) {
  Case c = three_groups();
  c.groups[1].params.push_back(c.groups[1].params[0]);
  c.groups[1].params[1].name = "d";
  move_into_root(&c, {1, 0});
  ASSERT_EQ(c.groups[0].params.size(), 3u);
  EXPECT_EQ(c.groups[0].params[2].name, "a_1");
  EXPECT_EQ(c.groups[0].reshard_after_forward, ReshardAfterForward{});
  ASSERT_EQ(c.groups[1].params.size(), 1u);
  EXPECT_EQ(c.groups[1].params[0].name, "d");
  EXPECT_EQ(c.operations[0].group, "left") << "the group itself is still there";
  EXPECT_EQ(c.operations[1].group + "." + c.operations[1].param, "root.a_1");
  EXPECT_TRUE(validate(c).ok());
}

TEST(Edits, MergingRenamesWhatWouldClash) {
  Case c = three_groups();
  merge_into_root(&c, 1, Settings::kOfRoot);
  ASSERT_EQ(c.groups.size(), 2u);
  ASSERT_EQ(c.groups[0].params.size(), 3u);
  EXPECT_EQ(c.groups[0].params[2].name, "a_1");
  EXPECT_EQ(c.groups[0].reshard_after_forward, ReshardAfterForward{});
  EXPECT_EQ(c.operations[1].param, "a_1");
  EXPECT_EQ(c.operations[2].param, "a");
  EXPECT_TRUE(validate(c).ok());
}

TEST(Edits, AMeshTakesItsListsAlong) {
  Case c = three_groups();
  c.groups[0].reshard_after_forward = 2;
  c.schedule.delays = {5, 6, 7, 8};
  set_mesh(&c, with_shard_size(c.mesh, 3));
  EXPECT_EQ(c.batch.tokens_by_rank, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(c.schedule.delays, (std::vector<int>{5, 6, 7}));
  EXPECT_TRUE(c.groups[1].unused_on_ranks.empty());
  EXPECT_EQ(c.groups[0].reshard_after_forward, ReshardAfterForward(true));
  EXPECT_TRUE(validate(c).ok());
}

TEST(Edits, AnIntegerReshardStaysAFactor) {
  Case c = three_groups();
  set_mesh(&c, with_shard_size(c.mesh, 8));
  c.groups[0].reshard_after_forward = 4;
  set_mesh(&c, with_shard_size(c.mesh, 6));
  EXPECT_EQ(c.groups[0].reshard_after_forward, ReshardAfterForward(3));
}

TEST(Edits, RowsOfTiedParametersMoveTogether) {
  Case c = three_groups();
  set_rows(&c, {2, 0}, 2);
  EXPECT_EQ(c.groups[0].params[1].shape[0], 2);
  EXPECT_EQ(c.groups[0].params[0].shape[0], 4);
  EXPECT_EQ(c.batch.empty_experts, (std::vector<int>{0, 3}));
  set_rows(&c, {0, 0}, 2);
  set_rows(&c, {1, 0}, 3);
  EXPECT_EQ(c.batch.empty_experts, std::vector<int>{0});
}

TEST(Edits, CanonicalNamesSwapSafely) {
  Case c = three_groups();
  c.groups[1].name = "g2";
  c.groups[2].name = "g1";
  c.operations = {{.kind = OpKind::kUnshard, .group = "g2", .param = {}},
                  {.kind = OpKind::kFullTensor, .group = "g1", .param = "c"}};
  use_canonical_names(&c);
  EXPECT_EQ(c.groups[1].name, "g1");
  EXPECT_EQ(c.groups[2].params[0].tied_to, "root.w1");
  EXPECT_EQ(c.operations[0].group, "g1");
  EXPECT_EQ(c.operations[1].group, "g2");
  EXPECT_EQ(c.operations[1].param, "w");
  EXPECT_TRUE(validate(c).ok());
}

TEST(Edits, EachOfThemKeepsRandomCasesValid) {
  Random random(31);
  for (int i = 0; i < 100; ++i) {
    const Case c = testing::random_case(&random);
    for (const ParamRef ref : params_of(c)) {
      for (const Place place : {Place::kRoot, Place::kNested}) {
        Case kept = c;
        keep_only(&kept, ref, place);
        EXPECT_TRUE(validate(kept).ok()) << validate(kept).error().text();
      }
    }
    Case renamed = c;
    use_canonical_names(&renamed);
    EXPECT_TRUE(validate(renamed).ok()) << validate(renamed).error().text();
  }
}

TEST(PassParts, TowardGoesFromTheFloorUp) {
  using detail::toward;
  EXPECT_EQ(toward(1, 1), std::vector<std::int64_t>{});
  EXPECT_EQ(toward(1, 2), std::vector<std::int64_t>{1});
  EXPECT_EQ(toward(1, 9), (std::vector<std::int64_t>{1, 2, 3, 5, 7, 8}));
  EXPECT_EQ(toward(16, 96, 16), (std::vector<std::int64_t>{16, 32, 48, 64, 80}));
}

TEST(PassParts, ChunksCoverEverythingAtEachLength) {
  const auto chunks = detail::chunks_of(5);
  std::vector<std::pair<std::size_t, std::size_t>> seen;
  for (const auto chunk : chunks) seen.emplace_back(chunk.first, chunk.last);
  const std::vector<std::pair<std::size_t, std::size_t>> expected = {
      {0, 5}, {0, 3}, {3, 5}, {0, 2}, {2, 4}, {4, 5}, {0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}};
  EXPECT_EQ(seen, expected);
  EXPECT_TRUE(detail::chunks_of(0).empty());
}

}  // namespace
}  // namespace shardfuzz
