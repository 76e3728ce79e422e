#include "harness/oracle/refused_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace shardfuzz {
namespace {

// What each row's source really says, with sizes of its own.
struct Said {
  std::string id;
  Raised raised;
};

std::vector<Said> sayings() {
  const std::string param = "_fsdp_param.py:", group = "_fsdp_param_group.py:_init_mp_dtypes";
  return {
      {"uneven-nonzero-dim",
       {.type = "NotImplementedError",
        .message =
            "FSDP does not support uneven sharding on dim 1: torch.Size([4, 5]) (world size: 2)",
        .where = param + "_init_sharded_param"}},
      {"int-reshard-extension",
       {.type = "NotImplementedError", .where = param + "all_gather_inputs"}},
      {"int-reshard-many-outputs",
       {.type = "AssertionError",
        .message = "Expected 1 all_gather_output, got 2",
        .where = param + "to_sharded_post_forward"}},
      {"mixed-original-dtype",
       {.type = "AssertionError",
        .message = "FSDP expects uniform original parameter dtype but got {torch.float32}",
        .where = group}},
      {"mixed-gradient-dtype",
       {.type = "AssertionError",
        .message = "FSDP reduce-scatter expects uniform gradient dtype but got {torch.float32}",
        .where = "_fsdp_common.py:_raise_assert_with_print"}},
      {"fp8-grouped-mm-dtype",
       {.type = "AssertionError",
        .message = "A must be float32 or bfloat16",
        .where = "fp8_grouped_mm.py:forward"}},
      {"fp8-token-groups",
       {.type = "RuntimeError",
        .message = "expected input tensor dynamic dimension byte size to be non-negative multiple "
                   "of 16, but group 0 has 8 tokens",
        .where = "fp8_grouped_mm.py:backward"}},
      {"scales-nonzero-dim",
       {.type = "NotImplementedError",
        .message = "ScaledRows can be sharded on dim 0 only: a scale is of a row",
        .where = "data_and_scales.py:fsdp_pre_all_gather"}},
      {"grouped-mm-alignment",
       {.type = "RuntimeError",
        .message = "strides should be multiple of 16 bytes",
        .where = "x.py:f"}},
  };
}

TEST(RefusedTable, FindsEachDocumentedRefusalByItsWords) {
  std::set<std::string> found;
  for (const Said& said : sayings()) {
    const Refusal* refusal = find_refusal(said.raised);
    ASSERT_NE(refusal, nullptr) << said.id;
    EXPECT_EQ(refusal->id, said.id);
    found.insert(said.id);
  }
  for (const Refusal& row : refused_table()) {
    EXPECT_EQ(found.count(std::string(row.id)), 1U) << row.id << " has no saying in this test";
    EXPECT_FALSE(row.source.empty());
  }
  EXPECT_EQ(found.size(), refused_table().size()) << "ids are unique";
}

TEST(RefusedTable, AnotherTypePlaceOrMessageIsNoRefusal) {
  for (const Said& said : sayings()) {
    Raised other = said.raised;
    other.type = "ValueError";
    EXPECT_EQ(find_refusal(other), nullptr) << said.id;
    other = said.raised;
    other.message = "something else";
    EXPECT_EQ(find_refusal(other), nullptr) << said.id;
    if (said.raised.where == "x.py:f") continue;
    other = said.raised;
    other.where = "elsewhere.py:f";
    EXPECT_EQ(find_refusal(other), nullptr) << said.id;
  }
}

}  // namespace
}  // namespace shardfuzz
