#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "harness/oracle/properties.h"
#include "harness/oracle/test_traces.h"

namespace shardfuzz {
namespace {

// What one rank of the small case holds, written down by hand: r is gathered and reduced in
// float32, so its reduced gradient stays in the reduction's output; that of w is cast from
// bfloat16, so its buffer goes.
struct Held {
  std::int64_t r_shard, w_shard, ranks;  // bytes that one rank sends

  explicit Held(const Case& c) : ranks(c.mesh.world_size()) {
    r_shard = (4 + ranks - 1) / ranks * 4;
    w_shard = (c.groups[1].params[0].shape[0] + ranks - 1) / ranks * 16 * 32 * 2;
  }

  // r is unsharded and its gathered bytes wait to overlap the next gather, when w is gathered.
  [[nodiscard]] Memory after_forward() const {
    return {.peak_bytes = ranks * (r_shard + r_shard + w_shard)};
  }
  // At the reduction of w both are unsharded no more than r is; that of r finds only w's output
  // gone.
  [[nodiscard]] Memory after_backward(std::int64_t sequence) const {
    const std::int64_t gather_w = ranks * (r_shard + w_shard);
    const std::int64_t reduce_w = ranks * (r_shard + w_shard) + w_shard;
    return {.buffers = {{.role = "reduce_output",
                         .process_group = "shard",
                         .sequence = sequence,
                         .bytes = r_shard}},
            .peak_bytes = std::max(gather_w, reduce_w)};
  }
  [[nodiscard]] Memory after_step(std::int64_t sequence) const {
    Memory memory = after_backward(sequence);
    memory.peak_bytes = 0;
    return memory;
  }
};

// A healthy trace, with what each rank holds at the end of each operation.
Trace healthy(const Case& c) {
  const Trace without = healthy_trace(c);
  const Held held(c);
  Trace trace = without;
  trace.events.clear();
  std::map<int, Event> last;  // by rank, of an operation
  const auto end_operation = [&](int rank) {
    const auto it = last.find(rank);
    if (it == last.end() || it->second.operation < 0) return;
    Event end = it->second;
    const std::int64_t reduces_r = 4;  // after the gathers of r, w, w and the reduction of w
    end.payload = end.operation == 0   ? held.after_forward()
                  : end.operation == 1 ? held.after_backward(reduces_r)
                                       : held.after_step(reduces_r);
    trace.events.push_back(end);
  };
  for (const Event& event : without.events) {
    const auto it = last.find(event.rank);
    if (it != last.end() && it->second.operation != event.operation) end_operation(event.rank);
    trace.events.push_back(event);
    last[event.rank] = event;
  }
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    trace.events[i].index = static_cast<std::int64_t>(i);
  }
  return trace;
}

// The sentences of what is found after the nth Memory (0 forward, 1 backward, 2 step) of rank 1 was
// changed.
std::vector<std::string> after(int nth, void (*change_it)(Memory&)) {
  const Case c = small_case();
  Trace trace = healthy(c);
  change<Memory>(&trace, 1, "", change_it, nth);
  std::vector<std::string> sentences;
  for (const Finding& finding : found_by(check_memory, c, trace)) {
    EXPECT_EQ(finding.property, "P10");
    EXPECT_EQ(finding.rank, 1);
    EXPECT_EQ(finding.event, first_index<Memory>(trace, 1, "", nth));
    sentences.push_back(finding.phase + ": " + finding.sentence);
  }
  return sentences;
}

TEST(P10, AHealthyTraceGivesNoFinding) {
  for (const SmallCase& shape : healthy_shapes()) {
    const Case c = small_case(shape);
    EXPECT_EQ(found_by(check_memory, c, healthy(c)), Findings{});
  }
}

TEST(P10, ATraceThatSaysNothingAboutMemoryIsNotJudged) {
  const Case c = small_case();
  EXPECT_EQ(found_by(check_memory, c, healthy_trace(c)), Findings{});
}

TEST(P10, AGathersOutputThatOutlivesForward) {
  EXPECT_EQ(after(0,
                  [](Memory& memory) {
                    memory.buffers.push_back({.role = "gather_output",
                                              .process_group = "shard",
                                              .sequence = 1,
                                              .bytes = 2048});
                  }),
            (std::vector<std::string>{
                "forward: after forward rank 1 holds 2048 bytes of all-gather outputs instead of "
                "0: that of collective 1 of shard, launched for group experts in forward of step "
                "0, has 2048 bytes and should be gone"}));
}

TEST(P10, AReductionsInputThatOutlivesBackward) {
  EXPECT_EQ(
      after(1,
            [](Memory& memory) {
              memory.buffers.insert(
                  memory.buffers.begin(),
                  {.role = "reduce_input", .process_group = "shard", .sequence = 4, .bytes = 16});
            }),
      (std::vector<std::string>{
          "backward: after backward rank 1 holds 16 bytes of reduce-scatter inputs instead "
          "of 0: that of collective 4 of shard, launched for group root in backward of step "
          "0, has 16 bytes and should be gone"}));
}

TEST(P10, AGradientsBufferThatIsGoneTooEarly) {
  EXPECT_EQ(after(2, [](Memory& memory) { memory.buffers.clear(); }),
            (std::vector<std::string>{"step: after step rank 1 holds 0 bytes of reduced gradients' "
                                      "buffers instead of 8"}));
}

TEST(P10, APeakOfOtherHeight) {
  EXPECT_EQ(after(0, [](Memory& memory) { memory.peak_bytes += 2; }),
            (std::vector<std::string>{
                "forward: in forward rank 1 holds up to 2082 bytes of collectives' buffers and "
                "unsharded parameters at a launch instead of 2080"}));
}

TEST(P10, OneFindingARankTheFirst) {
  const Case c = small_case();
  Trace trace = healthy(c);
  for (const int rank : {0, 1}) {
    for (const int nth : {0, 1, 2}) {
      change<Memory>(
          &trace, rank, "", [](Memory& memory) { memory.peak_bytes += 1; }, nth);
    }
  }
  const Findings found = found_by(check_memory, c, trace);
  ASSERT_EQ(found.size(), 2U);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(found[static_cast<std::size_t>(rank)].rank, rank);
    EXPECT_EQ(found[static_cast<std::size_t>(rank)].phase, "forward");
  }
}

TEST(P10, AnUnshardedGradientThatWaitsThoughItWasReduced) {
  const Case c = small_case();
  Trace trace = healthy(c);
  change<Storage>(
      &trace, 0, "w", [](Storage& storage) { storage.gradient_bytes = 1024; }, 1);
  EXPECT_EQ(found_by(check_memory, c, trace),
            (Findings{{.property = "P10",
                       .rank = 0,
                       .group = "experts",
                       .phase = "backward",
                       .step = 0,
                       .sentence = "after backward rank 0 holds 1024 bytes of unsharded gradients "
                                   "of group experts instead of 0",
                       .event = first_index<Memory>(trace, 0, "", 1)}}));
}

TEST(P10, AShardOfASmallerMeshWhereNoneIsKept) {
  const Case c = small_case();
  Trace trace = healthy(c);
  change<Storage>(&trace, 0, "w", [](Storage& storage) { storage.post_forward_bytes = 512; });
  const Findings found = found_by(check_memory, c, trace);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "after forward rank 0 holds 512 bytes of the shard kept after forward of group experts "
            "instead of 0");
}

TEST(P10, WhereARankRaisedNothingIsJudged) {
  const Case c = small_case();
  Trace trace = healthy(c);
  change<Memory>(&trace, 0, "", [](Memory& memory) { memory.peak_bytes += 1; });
  add(&trace, 1, Raised{.type = "RuntimeError", .message = "it broke"});
  EXPECT_EQ(found_by(check_memory, c, trace), Findings{});
}

}  // namespace
}  // namespace shardfuzz
