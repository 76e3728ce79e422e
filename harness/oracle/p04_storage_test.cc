#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/oracle/properties.h"
#include "harness/oracle/test_traces.h"

namespace shardfuzz {
namespace {

TEST(P4, AHealthyTraceGivesNoFinding) {
  for (const SmallCase& shape : healthy_shapes()) {
    const Case c = small_case(shape);
    EXPECT_EQ(found_by(check_storage, c, healthy_trace(c)), Findings{});
  }
}

TEST(P4, AViewBeyondItsStorage) {
  const Case c = small_case({.experts = 3});
  Trace trace = healthy_trace(c);
  change<Unsharded>(&trace, 1, "w", [](Unsharded& view) { view.storage_bytes = 2048; });
  EXPECT_EQ(
      found_by(check_storage, c, trace),
      (Findings{
          {.property = "P4",
           .rank = 1,
           .group = "experts",
           .param = "w",
           .phase = "forward",
           .step = 0,
           .sentence = "on rank 1 the view of experts.w reaches to byte 3072 of a storage of 2048",
           .event = first_index<Unsharded>(trace, 1, "w")}}));
}

TEST(P4, AViewThatFillsItsStorageExactlyFits) {
  const Case c = small_case({.experts = 3});
  Trace trace = healthy_trace(c);
  change<Unsharded>(&trace, 1, "w", [](Unsharded& view) { view.storage_bytes = 3072; });
  EXPECT_EQ(found_by(check_storage, c, trace), Findings{});
}

TEST(P4, AnUnshardedParameterOfAnotherShape) {
  const Case c = small_case({.experts = 3});
  Trace trace = healthy_trace(c);
  change<Unsharded>(&trace, 0, "w", [](Unsharded& view) { view.shape = {4, 16, 32}; });
  const Findings found = found_by(check_storage, c, trace);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "on rank 0 the unsharded experts.w has shape [4, 16, 32] instead of [3, 16, 32]");
}

TEST(P4, AStorageErrorOfPyTorchItself) {
  const Case c = small_case({.experts = 1});
  Trace trace = healthy_trace(c);
  const std::string message =
      "setStorage: sizes [1, 16, 32], strides [512, 32, 1], storage offset 0, and itemsize 2 "
      "requiring a "
      "storage size of 1024 are out of bounds for storage of size 0";
  add(&trace, 1,
      Raised{.type = "RuntimeError", .message = message, .group = "experts", .param = "w"});
  add(&trace, 0, Raised{.type = "RuntimeError", .message = message});
  const Findings found = found_by(check_storage, c, trace);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].param, "w");
  EXPECT_EQ(found[0].sentence, "on rank 1 the view of experts.w does not fit: " + message);
  EXPECT_EQ(found[1].sentence, "on rank 0 the view of a tensor does not fit: " + message);
}

TEST(P4, AReadOfFreedStorage) {
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  add(&trace, 1,
      FreedRead{.op = "aten::mm", .storage_bytes = 0, .needed_bytes = 1024, .shape = {16, 32}});
  const Findings found = found_by(check_storage, c, trace);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].sentence,
            "rank 1 reads freed storage: aten::mm needs 1024 bytes of a tensor [16, 32] whose "
            "storage holds "
            "0");
}

// Storage events of a rank in order: r and w after forward (0), after backward (1), after step (2).
TEST(P4, AGroupThatIsNotResharded) {
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  change<Storage>(&trace, 1, "w", [](Storage& storage) { storage.unsharded_bytes = 2048; });
  EXPECT_EQ(found_by(check_storage, c, trace),
            (Findings{{.property = "P4",
                       .rank = 1,
                       .group = "experts",
                       .phase = "forward",
                       .step = 0,
                       .sentence =
                           "after forward rank 1 holds 2048 bytes of unsharded parameters of group "
                           "experts instead of 0"}}));
}

TEST(P4, ARootThatIsFreedTooEarlyAndOneThatIsKeptTooLong) {
  const Case c = small_case();
  Trace early = healthy_trace(c);
  change<Storage>(&early, 0, "r", [](Storage& storage) { storage.unsharded_bytes = 0; });
  Findings found = found_by(check_storage, c, early);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(
      found[0].sentence,
      "after forward rank 0 holds 0 bytes of unsharded parameters of group root instead of 16");
  Trace long_kept = healthy_trace(c);
  change<Storage>(
      &long_kept, 0, "r", [](Storage& storage) { storage.unsharded_bytes = 16; }, 1);
  found = found_by(check_storage, c, long_kept);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(
      found[0].sentence,
      "after backward rank 0 holds 16 bytes of unsharded parameters of group root instead of 0");
}

TEST(P4, BytesHeldAreNotJudgedWhereARankRaised) {
  const Case c = small_case();
  Trace trace = healthy_trace(c);
  change<Storage>(&trace, 1, "w", [](Storage& storage) { storage.unsharded_bytes = 2048; });
  add(&trace, 0, Raised{.type = "ValueError"});
  EXPECT_EQ(found_by(check_storage, c, trace), Findings{});
}

TEST(P4, AShardThatIsNotTheRanksChunk) {
  const Case c = small_case({.experts = 3});
  const std::string want = " instead of [1, 16, 32], padded to [2, 16, 32] in 4096 bytes";
  const auto sentence_after = [&](void (*change_it)(Sharded&)) {
    Trace trace = healthy_trace(c);
    change<Sharded>(&trace, 1, "w", change_it);
    const Findings found = found_by(check_storage, c, trace);
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? "" : found[0].sentence;
  };
  EXPECT_EQ(
      sentence_after([](Sharded& shard) {
        shard.local_shape = {2, 16, 32};
      }),
      "rank 1 holds a shard [2, 16, 32] of experts.w, padded to [2, 16, 32] in 4096 bytes," + want);
  EXPECT_EQ(
      sentence_after([](Sharded& shard) {
        shard.padded_shape = {1, 16, 32};
      }),
      "rank 1 holds a shard [1, 16, 32] of experts.w, padded to [1, 16, 32] in 4096 bytes," + want);
  EXPECT_EQ(
      sentence_after([](Sharded& shard) { shard.storage_bytes = 2048; }),
      "rank 1 holds a shard [1, 16, 32] of experts.w, padded to [2, 16, 32] in 2048 bytes," + want);
}

}  // namespace
}  // namespace shardfuzz
