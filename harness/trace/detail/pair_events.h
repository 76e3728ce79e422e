// Which events of two traces are the same event, rank by rank; and how an event is called.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "harness/trace/trace.h"

namespace shardfuzz {

enum class PairedBy {
  kOrder,    // or not paired at all
  kMove,     // the same event at another place among those of its rank
  kRenaming  // events of two subjects at one place
};

// Positions in the two traces' lists of events.
struct EventPair {
  std::int64_t left = -1, right = -1;  // -1: this side has no such event
  std::int64_t anchor = 0;             // left, or the left event before which the right one comes
  PairedBy by = PairedBy::kOrder;
  bool operator==(const EventPair&) const = default;
};

// The pairs of each rank in its order, rank after rank (first -1: events of no single rank).
//
// Events of one place (step, operation, phase), kind and subject are paired so that as many as can
// be keep their order; of events that cannot be told apart so far, those with equal content, fields
// named in `without` not counted. What is left over is paired with an event of the same place, kind
// and subject that comes elsewhere (moved), then with one of another subject between the same
// neighbours: its name has changed. Every event is in exactly one pair.
std::vector<EventPair> pair_events(const Trace& left, const Trace& right,
                                   const std::set<std::string>& without);

// "experts.w1", "experts.w1 gradient", "shard all_gather"; "" for a kind that is about nothing.
std::string subject_of(const Event& event);

// Kind and subject with what tells it from its like: "launch shard all_gather 3 of 512 bytes".
std::string description_of(const Event& event);

}  // namespace shardfuzz
