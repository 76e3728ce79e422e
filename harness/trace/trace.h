// Trace: the events of one run with what is needed to judge them, its JSON form and its digest.
//
// The digest covers everything that must be the same in another process, with another number of
// workers and under load: all events in order, but for bytes that are undefined by design (outputs
// of a collective on which the ranks disagree are poisoned, so they are defined here).
// Refused: unknown event kinds, missing fields and ranks outside the world (Error with the place).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/base/result.h"
#include "harness/trace/event.h"

namespace shardfuzz {

struct Trace {
  int world_size = 0;
  std::vector<int> mesh;
  std::string torch_version, torchao_version;
  std::string invalid;        // the target cannot run the case as written: why; "" otherwise
  std::vector<Event> events;  // by index
  bool operator==(const Trace&) const = default;
};

Result<Trace> parse_trace(std::string_view json_text);
std::string trace_text(const Trace& trace);    // one line of JSON
std::string event_text(const Event& event);    // one line of JSON
std::string trace_digest(const Trace& trace);  // 16 hex digits

// Calls `use(event, payload)` for each event of one kind, in order.
template <typename Kind, typename Use>
void for_each(const Trace& trace, Use&& use) {
  for (const Event& event : trace.events) {
    if (const auto* payload = std::get_if<Kind>(&event.payload)) use(event, *payload);
  }
}

}  // namespace shardfuzz
