// Traces for tests of the oracle: a healthy run of a small case, and ways to break it.
//
// The case: a root with one plain parameter r (4 float32) and one group "experts" with a parameter
// w (experts x 16 x 32, float32, gathered in bfloat16), sharded over `ranks`; one step. The numbers
// in the healthy trace are written down or computed here with arithmetic of their own, not by
// harness/layout. Use:  Trace t = healthy_trace(c);  change<Unsharded>(&t, 1, "w", [](auto& u) {
// u.tags = 3; });
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "harness/base/check.h"
#include "harness/case/case.h"
#include "harness/oracle/properties.h"
#include "harness/trace/trace.h"

namespace shardfuzz {

struct SmallCase {
  int experts = 2;
  int ranks = 2;
  std::string hook = "padded";
};
Case small_case(const SmallCase& options = {});

// Every rank finishes and no property is violated.
Trace healthy_trace(const Case& c);

// The same events of each rank in the same order, with the ranks taking turns in another one.
Trace interleaved(const Trace& trace, std::uint64_t seed);

// Drops the events of a rank from the first that `ends` says, e.g. before it raises.
void cut(Trace* trace, int rank, std::int64_t first_index);
// Adds an event at the end; the place is that of the rank's last event with an operation.
void add(Trace* trace, int rank, Payload payload);
// Index of the first event of a kind on a rank for a parameter or kind of collective.
template <typename Kind>
std::int64_t first_index(const Trace& trace, int rank, const std::string& name, int nth = 0);

Findings found_by(void (*check)(const Expected&, const Trace&, Findings*), const Case& c,
                  const Trace& trace);

// For messages of failed tests (GoogleTest finds it by its name).
void PrintTo(const Finding& finding, std::ostream* out);  // NOLINT(readability-identifier-naming)

// The case in the shapes that every property's healthy test uses: even, uneven, with empty ranks.
std::vector<SmallCase> healthy_shapes();

// ---- details
// --------------------------------------------------------------------------------------

inline std::string name_in(const Launch& launch) { return launch.call.kind; }
template <typename Kind>
std::string name_in(const Kind& payload) {
  if constexpr (requires { payload.param; }) {
    return payload.param;
  } else {
    return "";
  }
}

// The nth event (from 0) of a kind on a rank whose parameter (Launch: kind of collective) has this
// name.
template <typename Kind>
Event& event_of(Trace* trace, int rank, const std::string& name, int nth = 0) {
  for (Event& event : trace->events) {
    const auto* payload = std::get_if<Kind>(&event.payload);
    if (payload == nullptr || event.rank != rank || name_in(*payload) != name) continue;
    if (nth-- == 0) return event;
  }
  SHARDFUZZ_CHECK(false, "the trace has no such event of rank {} for {}", rank, name);
}

template <typename Kind, typename Change>
void change(Trace* trace, int rank, const std::string& name, Change&& change_it, int nth = 0) {
  change_it(std::get<Kind>(event_of<Kind>(trace, rank, name, nth).payload));
}

template <typename Kind>
std::int64_t first_index(const Trace& trace, int rank, const std::string& name, int nth) {
  Trace copy = trace;
  return event_of<Kind>(&copy, rank, name, nth).index;
}

}  // namespace shardfuzz
