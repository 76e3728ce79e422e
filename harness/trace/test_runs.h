// Runs for the tests of the comparison: two ranks that gather two parameters, and ways to get at
// single events.  Use:  Trace t = small_run();  get<Unsharded>(&t, find<Unsharded>(t, 1)).tags = 2;
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "harness/base/check.h"
#include "harness/trace/compare.h"
#include "harness/trace/trace.h"

namespace shardfuzz {

inline constexpr Sides kSides{"real", "native"};
using Sentences = std::vector<std::string>;

struct Place {
  int step = 0, operation = 0;
  std::string phase = "forward";
};

inline void add(Trace* trace, int rank, Payload payload, const Place& place = {}) {
  trace->events.push_back({.index = static_cast<std::int64_t>(trace->events.size()),
                           .rank = rank,
                           .step = place.step,
                           .operation = place.operation,
                           .phase = place.phase,
                           .payload = std::move(payload)});
}

inline Unsharded unsharded(const std::string& param) {
  return {.group = "experts",
          .param = param,
          .shape = {1, 32, 16},
          .stride = {512, 16, 1},
          .dtype = "bfloat16",
          .storage_bytes = 1024,
          .needed_bytes = 1024,
          .slots = {"aa", "bb"}};
}

inline Launch launch(int rank, std::int64_t sequence, std::int64_t count = 512) {
  return {.process_group = "shard",
          .members = {0, 1},
          .sequence = sequence,
          .call = {.rank = rank, .kind = "all_gather", .count = count, .bytes = 2 * count},
          .digest = "in"};
}

inline Delivered delivered(std::int64_t sequence) {
  return {.process_group = "shard",
          .members = {0, 1},
          .sequence = sequence,
          .kind = "all_gather",
          .digest = "out"};
}

// Two ranks gather two parameters in turns, in each of two steps.
inline Trace small_run() {
  Trace trace{.world_size = 2, .mesh = {2}};
  for (int rank = 0; rank < 2; ++rank) {
    for (const char* param : {"w1", "w2"}) {
      add(&trace, rank, Sharded{.group = "experts", .param = param}, {-1, -1, "init"});
    }
  }
  std::int64_t sequence = 0;
  for (int step = 0; step < 2; ++step) {
    for (const char* param : {"w1", "w2"}) {
      for (int rank = 0; rank < 2; ++rank) {
        add(&trace, rank, PreAllGather{.group = "experts", .param = param}, {step, 0, "forward"});
        add(&trace, rank, launch(rank, sequence), {step, 0, "forward"});
      }
      for (int rank = 0; rank < 2; ++rank) {
        add(&trace, rank, delivered(sequence), {step, 0, "forward"});
        add(&trace, rank, unsharded(param), {step, 0, "forward"});
      }
      ++sequence;
    }
    for (int rank = 0; rank < 2; ++rank) {
      add(&trace, rank, Stepped{.group = "experts", .param = "w1"}, {step, 1, "step"});
    }
  }
  for (int rank = 0; rank < 2; ++rank) add(&trace, rank, Finished{}, {1, -1, "end"});
  for (int step = 0; step < 2; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      add(&trace, rank, Reference{.group = "experts", .param = "w1", .what = "gradient"},
          {step, -1, "reference"});
    }
  }
  return trace;
}

// Position of the nth event of a kind on a rank.
template <typename Kind>
std::size_t find(const Trace& trace, int rank, int nth = 0) {
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    if (event.rank == rank && std::holds_alternative<Kind>(event.payload) && nth-- == 0) return i;
  }
  SHARDFUZZ_CHECK(false, "no such event of rank {}", rank);
}

template <typename Kind>
Kind& get(Trace* trace, std::size_t position) {
  return std::get<Kind>(trace->events.at(position).payload);
}

inline void erase(Trace* trace, std::size_t position) {
  trace->events.erase(trace->events.begin() + static_cast<std::ptrdiff_t>(position));
}

inline Sentences sentences(const Comparison& comparison) {
  Sentences all;
  for (const Difference& difference : comparison.differences) {
    all.push_back(difference.sentence(kSides));
  }
  return all;
}

}  // namespace shardfuzz
