#include "fuzz/documented_use.h"

#include <gtest/gtest.h>

#include "fuzz/generator.h"
#include "harness/case/case_json.h"
#include "harness/case/validate.h"

namespace shardfuzz {
namespace {

Case experts_case() {
  Case c;
  c.groups = {{.name = "root"},
              {.name = "g1",
               .params = {{.name = "w",
                           .shape = {2, 16, 16},
                           .pack = "torchao_moe_fp8",
                           .hook = "padded",
                           .call = CallPath::kGroupedMm}},
               .mixed_precision = {.param_dtype = DType::kBFloat16}}};
  return c;
}

TEST(DocumentedUse, LeavesAnOrdinaryCaseAlone) {
  const Case before = experts_case();
  Case after = before;
  keep_documented_use(&after);
  EXPECT_EQ(after, before);
}

TEST(DocumentedUse, TakesOutEachKnownLimit) {
  Case c = experts_case();
  c.groups[1].unused_on_ranks = {1};
  c.groups[1].params[0].call = CallPath::kGroupedMmNoOffs;
  c.batch.tokens_by_rank = {1, 0};
  c.batch.empty_experts = {0, 1};
  c.groups[0].params = {{.name = "r", .shape = {4, 4}, .shard_dim = 1}};
  c.groups[0].reshard_after_forward = 2;
  c.operations = {{.kind = OpKind::kForward},
                  {.kind = OpKind::kBackward},
                  {.kind = OpKind::kFreeze, .group = "g1", .param = "w"},
                  {.kind = OpKind::kForward},
                  {.kind = OpKind::kBackward}};
  keep_documented_use(&c);
  EXPECT_TRUE(c.groups[1].unused_on_ranks.empty());
  EXPECT_EQ(c.groups[1].params[0].call, CallPath::kGroupedMm);
  EXPECT_EQ(c.batch.tokens_by_rank, (std::vector<int>{1, 1}));
  EXPECT_TRUE(c.batch.empty_experts.empty());
  EXPECT_TRUE(std::holds_alternative<std::monostate>(c.groups[0].reshard_after_forward));
  EXPECT_EQ(c.operations.size(), 4U);
}

TEST(DocumentedUse, ReshardsByHandOnlyWhatIsGatheredOverTheWholeMesh) {
  Case c = experts_case();
  c.groups[0].reshard_after_forward = 2;
  const Operation of_the_whole{.kind = OpKind::kReshard, .group = c.groups[1].name};
  c.operations = {{.kind = OpKind::kForward},
                  {.kind = OpKind::kReshard, .group = c.groups[0].name},
                  of_the_whole,
                  {.kind = OpKind::kBackward}};
  keep_documented_use(&c);
  ASSERT_EQ(c.operations.size(), 3U);
  EXPECT_EQ(c.operations[1], of_the_whole);
}

TEST(DocumentedUse, KeepsGeneratedCasesValid) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Choices choices = Choices::from_seed(seed);
    Case c = generate(choices, {});
    keep_documented_use(&c);
    const Status valid = validate(c);
    ASSERT_TRUE(valid.ok()) << valid.error().text() << canonical_text(c);
  }
}

}  // namespace
}  // namespace shardfuzz
