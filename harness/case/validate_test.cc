#include "harness/case/validate.h"

#include <gtest/gtest.h>

#include <string>

#include "harness/case/case_json.h"
#include "harness/case/pack_info.h"
#include "harness/case/test_cases.h"

namespace shardfuzz {
namespace {

std::string problem_of(const Case& c) {
  const Status fine = validate(c);
  return fine ? "" : fine.error().text();
}

TEST(Validate, AcceptsTheGoodCase) { EXPECT_EQ(problem_of(good_case()), ""); }

TEST(Validate, AcceptsTheSmallestCase) {
  Case c;
  c.groups = {{.name = "root", .params = {{.name = "w", .shape = {1}, .tied_to = {}}}}};
  EXPECT_EQ(problem_of(c), "");
}

TEST(Validate, EachRuleNamesItsFieldAndAWayOut) {
  const auto rows = broken_cases();
  EXPECT_GT(rows.size(), 90U);
  for (const BrokenCase& row : rows) {
    SCOPED_TRACE(row.name);
    const Status fine = validate(row.c);
    ASSERT_FALSE(fine.ok());
    EXPECT_EQ(fine.error().where, row.where);
    EXPECT_FALSE(fine.error().what_to_do.empty());
    EXPECT_NE(fine.error().text().find(row.word), std::string::npos) << fine.error().text();
  }
}

// Every broken case is a readable file: replay must find the rule, not a syntax error.
TEST(Validate, BrokenCasesCanBeWrittenAndRead) {
  for (const BrokenCase& row : broken_cases()) {
    const auto read = parse_case(canonical_text(row.c), row.name);
    ASSERT_TRUE(read.ok()) << read.error().text();
    EXPECT_EQ(*read, row.c) << row.name;
  }
}

// The limits are part of the format: a number one inside each must pass.
TEST(Validate, LimitsThemselvesAreAllowed) {
  Case c = good_case();
  c.steps = kMaxSteps;
  c.optimizer.lr_log2 = kMinLrLog2;
  c.batch.tokens_per_expert = kMaxTokensPerExpert;
  c.batch.top_k = kMaxTopK;
  c.batch.tokens_by_rank.assign(8, kMaxTokenFactor);
  c.schedule.delays.assign(8, kMaxDelay);
  c.schedule.change_points = kMaxChangePoints;
  c.groups[0].params[0].shape = {4096, 4096};
  c.groups[0].params[0].name.assign(64, 'a');
  c.groups[0].reshard_after_forward = 1;
  c.groups[1].reshard_after_forward = 4;
  c.operations.assign(kMaxOperations, Operation{});
  c.compare_meshes.assign(kMaxCompareMeshes, {1, 64});
  c.name.assign(128, '9');
  EXPECT_EQ(problem_of(c), "");
}

TEST(Validate, WorldSizeDependsOnTheComm) {
  Case c = good_case();
  c.batch.tokens_by_rank.clear();
  c.schedule.delays.clear();
  c.mesh.shape = {1, kMaxMeshSize};
  EXPECT_EQ(problem_of(c), "");
  c.environment.comm = "sim";
  EXPECT_NE(problem_of(c), "");
  c.mesh.shape = {1, kMaxWorldSize};
  c.compare_meshes = {{kMaxWorldSize}};
  EXPECT_EQ(problem_of(c), "");
}

TEST(Validate, AcceptsDimensionsOfSizeOneThatNoTargetSplits) {
  Case c = good_case();
  c.mesh = {{2, 4, 1, 1}, {"replicate", "shard", "tp", "ep"}};
  EXPECT_EQ(problem_of(c), "");
}

TEST(Validate, AHandleOutlivesAnUnshardThatGivesNone) {
  Case c = good_case();
  c.operations = {{OpKind::kUnshard, "moe", "", true},
                  {OpKind::kUnshard, "moe", "", false},
                  {OpKind::kWaitUnshard, "moe", "", false}};
  EXPECT_EQ(problem_of(c), "");
}

// Only a pack from outside can be built in uint8; the built-in ones refuse it by their dtypes.
TEST(Validate, IntegersHaveNoGradient) {
  add_pack({.name = "outside_pack",
            .about = "of this test",
            .hooks = {{.name = "none"}},
            .calls = {CallPath::kMul},
            .dtypes = {DType::kUInt8}});
  Case c = good_case();
  ParamSpec& param = c.groups[0].params[0];
  param.pack = "outside_pack";
  param.dtype = DType::kUInt8;
  EXPECT_EQ(problem_of(c), "");
  param.requires_grad = true;
  EXPECT_EQ(problem_of(c),
            "/groups/0/params/0/requires_grad: a uint8 parameter has no gradient (write false, or "
            "another dtype)");
}

}  // namespace
}  // namespace shardfuzz
