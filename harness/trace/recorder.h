// Recorder: collects the events of one run and knows where each rank is.
//
// Thread rule: called by the rank that holds the baton (harness/collective/scheduler.h), so there
// is one order of events and no lock.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/check.h"
#include "harness/trace/event.h"

namespace shardfuzz {

// Events of one run at most: a run beyond it is stopped by the step bound long before.
inline constexpr std::int64_t kMaxEvents = 1'000'000;

class Recorder {
 public:
  explicit Recorder(int world_size) : places_(static_cast<std::size_t>(world_size)) {
    constexpr std::size_t kFewEvents = 256;
    events_.reserve(kFewEvents);
  }

  void set_place(int rank, int step, int operation, std::string phase) {
    places_.at(static_cast<std::size_t>(rank)) = {step, operation, std::move(phase)};
  }

  // The index of the next event, for events that are written down elsewhere (Python).
  std::int64_t take_index() {
    SHARDFUZZ_CHECK(next_index_ < kMaxEvents, "a run wrote {} events", kMaxEvents);
    return next_index_++;
  }

  void record(int rank, Payload payload) {
    Event event{.index = take_index(), .rank = rank, .payload = std::move(payload)};
    if (rank >= 0) {
      const Place& place = places_.at(static_cast<std::size_t>(rank));
      event.step = place.step;
      event.operation = place.operation;
      event.phase = place.phase;
    }
    events_.push_back(std::move(event));
  }

  // At a place of its own: what is written after the ranks are done.
  void record_at(int rank, int step, int operation, std::string phase, Payload payload) {
    events_.push_back({.index = take_index(),
                       .rank = rank,
                       .step = step,
                       .operation = operation,
                       .phase = std::move(phase),
                       .payload = std::move(payload)});
  }

  [[nodiscard]] std::vector<Event> take_events() { return std::move(events_); }
  [[nodiscard]] const std::vector<Event>& events() const { return events_; }

 private:
  struct Place {
    int step = -1, operation = -1;
    std::string phase = "init";
  };
  std::vector<Place> places_;
  std::vector<Event> events_;
  std::int64_t next_index_ = 0;
};

}  // namespace shardfuzz
