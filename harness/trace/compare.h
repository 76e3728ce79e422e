// Comparison of two traces of one case, event by event: the first difference is named.
//
// Guaranteed: every field of every event is compared, under the name that it has in event.h, and
// the order of the events; a trace is the same as itself. Events are paired rank by rank by place
// (step, operation, phase), kind and subject (group, parameter, process group, ...), so that an
// event that one side has more is one difference and what follows it is still compared. After a
// collective that one side has more, sequence numbers may go on shifted.
// Not compared: versions of torch and torchao and the numbers of events (`index`; their order is).
// If the case or its world differ, that is the only difference told.
//
// Exceptions: what may differ is passed in by name with a reason, and how often each was needed is
// counted. Names (comparison_names() has all):
//   "unsharded.stride", "pre_all_gather.inputs.digest"   a field, in any entry of a list
//   "mismatch.missing"     an event of that kind that one side has more
//   "delivered.order"      an event of that kind at another place among its rank's events
//   "trace.order"          the order of the ranks' events among each other
//   "trace.world_size", "trace.mesh", "trace.invalid"
// Digests that follow a reduction in floating point cannot be compared within a bound: the caller
// excepts them, by a condition on the event, and relies on the numbers that are kept beside them
// (Reference, Final.sample) and on number_bound.
//
// Refused (checked): an exception of an unknown name or without a reason.
// Thread rule: none needed, nothing is shared. Pure: the same traces give the same comparison.
// Use:  const Comparison c = compare_traces(real, native, {.exceptions = kTwinExceptions});
//       if (!c.same()) print(c.differences.front().sentence({"real", "native"}));
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/trace/trace.h"

namespace shardfuzz {

// Kept of what was found; all are counted.
inline constexpr std::size_t kMaxDifferencesPerRank = 8;
inline constexpr std::size_t kMaxDifferences = 64;

struct CompareException {
  std::string name;
  std::string reason;  // for people: why this may differ
  // Narrows it down to some events; without it all. Where one side has no such event, both
  // arguments are the other's. Not asked for "trace.world_size", "trace.mesh" and "trace.invalid".
  std::function<bool(const Event& left, const Event& right)> applies;
};

struct CompareOptions {
  // The order of events of different ranks is compared too. Off for runs on real processes.
  bool global_order = true;
  // Fields that are numbers with a fraction (a list counts as one) may differ by this share of
  // their largest magnitude, or of 1 if that is larger. 0: bit by bit, but for two NaNs.
  double number_bound = 0;
  std::vector<CompareException> exceptions;
};

// Names of the two sides in sentences.
struct Sides {
  std::string_view left = "left", right = "right";
};

struct Difference {
  // Of the left event, or of the right one where the left side has none.
  int rank = -1;  // -1: of no single rank
  int step = -1;
  int operation = -1;
  std::string phase;
  std::int64_t left_index = -1, right_index = -1;  // of the event; -1: not there
  std::string name;         // "pre_all_gather.inputs.digest": what an exception would be called
  std::string kind;         // of event; "trace" for what belongs to none
  std::string subject;      // "experts.w1", "shard all_gather"; "" where there is none
  std::string field;        // "inputs[0].digest", "missing", "order"
  std::string left, right;  // the values; for "missing" the event, "" on the side that has none

  // "rank 1, step 0, forward: unsharded experts.w1 stride is [512, 16, 1] on real, [512, 1, 16] on
  // native"
  [[nodiscard]] std::string sentence(const Sides& sides) const;
};

struct Comparison {
  std::int64_t events_compared = 0;    // that both sides have
  std::int64_t fields_compared = 0;    // of these
  std::int64_t differences_found = 0;  // with those that are not kept below
  // The first of each rank, in causal order: by step and operation (what is compared after the run
  // comes last in its step), then by the left trace's order.
  std::vector<Difference> differences;
  // How many differences each exception took away; all exceptions are here.
  std::map<std::string, std::int64_t> exceptions_used;

  [[nodiscard]] bool same() const { return differences_found == 0; }
};

Comparison compare_traces(const Trace& left, const Trace& right, const CompareOptions& options);

const std::set<std::string>& comparison_names();

}  // namespace shardfuzz
