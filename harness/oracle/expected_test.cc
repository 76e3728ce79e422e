#include "harness/oracle/expected.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/oracle/test_traces.h"

namespace shardfuzz {
namespace {

using Lines = std::vector<std::string>;
using Bytes = std::vector<std::int64_t>;

// "shard all_gather 16 of experts" for each collective of one operation.
Lines ledger(const Expected& expected, std::size_t operation) {
  Lines lines;
  for (const auto& c : expected.life().operations.at(operation).collectives) {
    const auto& group = expected.the_case().groups.at(static_cast<std::size_t>(c.group));
    lines.push_back(fmt::format("{} {} {} of {}", c.process_group, c.kind, c.bytes, group.name));
  }
  return lines;
}

Bytes held(const Expected& expected, std::size_t operation) {
  return expected.life().operations.at(operation).unsharded_bytes;
}

TEST(Expected, ThreeStepsOfTheSmallCaseByHand) {
  // r: 4 float32 on 2 ranks: 2 x 4 = 8 bytes a rank. w: 3 x 16 x 32 on 2 ranks: padded to 2 rows,
  // 1024 elements, 2048 bytes in bfloat16, which is what the gradient is reduced in, too.
  Case c = small_case({.experts = 3});
  c.steps = 3;
  const Expected expected(c);
  ASSERT_EQ(expected.life().operations.size(), 12U);
  for (std::size_t step = 0; step < 3; ++step) {
    EXPECT_EQ(ledger(expected, 4 * step),
              (Lines{"shard all_gather 8 of root", "shard all_gather 2048 of experts"}));
    EXPECT_EQ(held(expected, 4 * step), (Bytes{16, 0})) << "the root is kept after forward";
    EXPECT_EQ(ledger(expected, 4 * step + 1),
              (Lines{"shard all_gather 2048 of experts", "shard reduce_scatter 2048 of experts",
                     "shard reduce_scatter 8 of root"}));
    EXPECT_EQ(held(expected, 4 * step + 1), (Bytes{0, 0}));
    EXPECT_EQ(ledger(expected, 4 * step + 2), Lines{}) << "optimizer step";
    EXPECT_EQ(ledger(expected, 4 * step + 3), Lines{}) << "zero_grad";
  }
}

TEST(Expected, ReduceDtypeIsWhatTheGradientCostsAndHsdpAddsAnAllReduce) {
  Case c = small_case({.experts = 3, .ranks = 4});
  c.mesh.shape = {2, 2};
  c.mesh.dim_names = {"replicate", "shard"};
  c.groups[1].mixed_precision.reduce_dtype = DType::kFloat32;
  const Expected expected(c);
  EXPECT_EQ(ledger(expected, 1),
            (Lines{"shard all_gather 2048 of experts", "shard reduce_scatter 4096 of experts",
                   "replicate all_reduce 4096 of experts", "shard reduce_scatter 8 of root",
                   "replicate all_reduce 8 of root"}));
  EXPECT_EQ(expected.shard_rank_of(0), 0);
  EXPECT_EQ(expected.shard_rank_of(1), 1);
  EXPECT_EQ(expected.shard_rank_of(2), 0) << "the second replica";
}

TEST(Expected, AWorldOfOneSendsNothingAndHoldsTheWhole) {
  const Case c = small_case({.experts = 3, .ranks = 1});
  const Expected expected(c);
  EXPECT_EQ(ledger(expected, 0), Lines{});
  EXPECT_EQ(ledger(expected, 1), Lines{});
  EXPECT_EQ(held(expected, 0), (Bytes{16, 0}));
}

TEST(Expected, ReshardAfterForwardDecidesWhatIsHeldAndGatheredAgain) {
  Case c = small_case({.experts = 8, .ranks = 4});  // w: 2 rows, 1024 elements, 2048 bytes a rank
  const auto after_forward = [&](ReshardAfterForward policy) {
    c.groups[1].reshard_after_forward = policy;
    const Expected expected(c);
    return fmt::format("{} held, then {}", held(expected, 0)[1], ledger(expected, 1)[0]);
  };
  const std::string freed = "0 held, then shard all_gather 2048 of experts";
  const std::string kept = "8192 held, then shard reduce_scatter 2048 of experts";
  EXPECT_EQ(after_forward(std::monostate{}), freed);
  EXPECT_EQ(after_forward(true), freed);
  EXPECT_EQ(after_forward(4), freed) << "the shard group's own size is true";
  EXPECT_EQ(after_forward(false), kept);
  EXPECT_EQ(after_forward(1), kept) << "1 is false";
  EXPECT_EQ(after_forward(2), "0 held, then post_forward all_gather 4096 of experts");
}

TEST(Expected, TheRootIsFreedAfterForwardOnlyWhereItsPolicySaysSo) {
  Case c = small_case();
  c.groups[0].reshard_after_forward = true;
  const Expected expected(c);
  EXPECT_EQ(held(expected, 0), (Bytes{0, 0}));
  EXPECT_EQ(ledger(expected, 1)[0], "shard all_gather 8 of root");
}

TEST(Expected, FrozenParametersAndUnsyncedStepsReduceNothing) {
  Case c = small_case();
  c.groups[0].params[0].requires_grad = false;
  EXPECT_EQ(ledger(Expected(c), 1),
            (Lines{"shard all_gather 1024 of experts", "shard reduce_scatter 1024 of experts"}));
  c.operations = {{.kind = OpKind::kGradientSync, .flag = false},
                  {.kind = OpKind::kForward},
                  {.kind = OpKind::kBackward},
                  {.kind = OpKind::kGradientSync, .flag = true},
                  {.kind = OpKind::kForward},
                  {.kind = OpKind::kBackward}};
  const Expected expected(c);
  EXPECT_EQ(ledger(expected, 2), (Lines{"shard all_gather 1024 of experts"}));
  EXPECT_EQ(ledger(expected, 5),
            (Lines{"shard all_gather 1024 of experts", "shard reduce_scatter 1024 of experts"}));
}

TEST(Expected, AParameterThatIsFrozenByAnOperationIsFoundBehindATiedOne) {
  Case c = small_case();
  c.groups[0].params = {{.name = "a", .shape = {4}},
                        {.name = "b", .shape = {4}, .tied_to = "root.a"},
                        {.name = "d", .shape = {8}}};
  const auto reduced_after_freezing = [&](const std::string& param) {
    c.operations = {{.kind = OpKind::kFreeze, .group = "root", .param = param},
                    {.kind = OpKind::kForward},
                    {.kind = OpKind::kBackward}};
    const Expected expected(c);
    const auto& collectives = expected.life().operations.at(2).collectives;
    return collectives.back().bytes;
  };
  EXPECT_EQ(reduced_after_freezing("d"), 8) << "a is left: 2 rows of 4 bytes";
  EXPECT_EQ(reduced_after_freezing("a"), 16) << "d is left";
  EXPECT_EQ(reduced_after_freezing("b"), 16) << "b is a";
  c.groups[1].params[0] = {.name = "w", .shape = {4}, .tied_to = "root.a"};
  c.operations[0].group = "experts";
  c.operations[0].param = "w";
  EXPECT_EQ(Expected(c).life().operations.at(2).collectives.back().bytes, 16) << "w is root.a";
}

TEST(Expected, ATiedParameterIsGatheredOnce) {
  Case c = small_case();
  c.groups[0].params.push_back({.name = "b", .shape = {4}, .tied_to = "root.r"});
  EXPECT_EQ(ledger(Expected(c), 0)[0], "shard all_gather 8 of root");
}

TEST(Expected, ShapesClassesAndNamesOfAParameter) {
  Case c = small_case({.experts = 5, .ranks = 4});
  c.groups[0].params.push_back({.name = "t", .shape = {3, 6}, .shard_dim = 1});
  const Expected expected(c);
  const ParamView* w = expected.find("experts", "w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->pack->name, "torchao_moe_fp8");
  EXPECT_EQ(w->group_index, 1);
  EXPECT_EQ(expected.padded_shape(*w), (Bytes{2, 16, 32}));
  EXPECT_EQ(expected.sent_dtype(*w), DType::kBFloat16);
  EXPECT_EQ(expected.class_name("experts", "w", 0), "full");
  EXPECT_EQ(expected.class_name("experts", "w", 2), "short");
  EXPECT_EQ(expected.class_name("experts", "w", 3), "empty");
  EXPECT_EQ(expected.class_name("experts", "", 3), "full") << "no parameter";
  EXPECT_EQ(expected.class_name("experts", "w", -1), "full") << "no rank";
  const ParamView* t = expected.find("root", "t");
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(expected.padded_shape(*t), (Bytes{3, 2}));
  EXPECT_EQ(expected.sent_dtype(*t), DType::kFloat32);
  EXPECT_EQ(expected.find("experts", "r"), nullptr);
  EXPECT_EQ(expected.find("", "w"), nullptr);
}

TEST(Expected, TorchNamesAreThoseOfTorch) {
  EXPECT_EQ(torch_name(DType::kFloat32), "float32");
  EXPECT_EQ(torch_name(DType::kBFloat16), "bfloat16");
  EXPECT_EQ(torch_name(DType::kFloat16), "float16");
  EXPECT_EQ(torch_name(DType::kFloat8E4M3), "float8_e4m3fn");
  EXPECT_EQ(torch_name(DType::kUInt8), "uint8");
}

}  // namespace
}  // namespace shardfuzz
