#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/oracle/properties.h"
#include "harness/oracle/test_traces.h"

namespace shardfuzz {
namespace {

TEST(P1, AHealthyTraceGivesNoFinding) {
  for (const SmallCase& shape : healthy_shapes()) {
    const Case c = small_case(shape);
    EXPECT_EQ(found_by(check_shape_contract, c, healthy_trace(c)), Findings{});
  }
}

TEST(P1, AHookThatSendsFewerRowsIsNamedWithItsShardClassAndBothShapes) {
  const Case c = small_case({.experts = 3});
  Trace trace = healthy_trace(c);
  change<PreAllGather>(&trace, 1, "w", [](PreAllGather& sent) {
    sent.inputs[0].shape = {1, 16, 32};
    sent.inputs[0].bytes = 1024;
  });
  EXPECT_EQ(
      found_by(check_shape_contract, c, trace),
      (Findings{{.property = "P1",
                 .rank = 1,
                 .group = "experts",
                 .param = "w",
                 .phase = "forward",
                 .step = 0,
                 .sentence =
                     "rank 1 (short shard) sends [1, 16, 32] bfloat16 (1024 bytes) for "
                     "experts.w, where every rank must send [2, 16, 32] bfloat16 (2048 bytes)",
                 .event = first_index<PreAllGather>(trace, 1, "w")}}));
}

TEST(P1, AnEmptyShardIsNamedEmpty) {
  const Case c = small_case({.experts = 1});
  Trace trace = healthy_trace(c);
  change<PreAllGather>(&trace, 1, "w", [](PreAllGather& sent) {
    sent.inputs[0].shape = {0, 16, 32};
    sent.inputs[0].bytes = 0;
  });
  const Findings found = found_by(check_shape_contract, c, trace);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("rank 1 (empty shard) sends [0, 16, 32]"), std::string::npos);
}

TEST(P1, AnotherDtypeAnotherNumberOfTensorsOrNothingIsAViolation) {
  const Case c = small_case();
  const auto sentence_after = [&](auto change_it) {
    Trace trace = healthy_trace(c);
    change<PreAllGather>(&trace, 0, "w", change_it);
    const Findings found = found_by(check_shape_contract, c, trace);
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? "" : found[0].sentence.substr(0, found[0].sentence.find(" for "));
  };
  EXPECT_EQ(sentence_after([](PreAllGather& sent) {
              sent.inputs[0].dtype = "float32";
              sent.inputs[0].bytes = 2048;
            }),
            "rank 0 (full shard) sends [1, 16, 32] float32 (2048 bytes)");
  EXPECT_EQ(sentence_after([](PreAllGather& sent) {
              sent.inputs.push_back({.shape = {1}, .dtype = "float32", .bytes = 4});
            }),
            "rank 0 (full shard) sends [1, 16, 32] bfloat16 (1024 bytes) + [1] float32 (4 bytes)");
  EXPECT_EQ(sentence_after([](PreAllGather& sent) { sent.inputs.clear(); }),
            "rank 0 (full shard) sends nothing");
}

TEST(P1, ARegatherAfterAnIntReshardSendsWhatIsKeptAndIsNotJudged) {
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  change<PreAllGather>(&trace, 1, "w", [](PreAllGather& sent) {
    sent.inputs[0].shape = {7};
    sent.from_post_forward = true;
  });
  EXPECT_EQ(found_by(check_shape_contract, c, trace), Findings{});
}

TEST(P1, EveryRankThatViolatesItIsNamed) {
  const Case c = small_case({.experts = 1, .ranks = 3});
  Trace trace = healthy_trace(c);
  for (const int rank : {1, 2}) {
    change<PreAllGather>(&trace, rank, "w", [](PreAllGather& sent) {
      sent.inputs[0].shape = {0, 16, 32};
    });
  }
  const Findings found = found_by(check_shape_contract, c, trace);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[1].rank, 2);
}

}  // namespace
}  // namespace shardfuzz
