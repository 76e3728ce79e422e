// find_predicate: the simplest condition on a case under which it fails.
//
// Guarantees: the rows of the parameter at fault (num_experts where it has three dims) and the
// ranks it is sharded over are varied around the minimized case on a fixed grid, everything else
// kept; then single switches (steps, dtypes, resharding, delivery, operations) are tried one at a
// time and only those without which the case passes are named. A probe that ends otherwise (another
// failure, refused, invalid, error) is in the grid of the result but counts for neither side.
// Refuses: nothing; where no condition separates, the best is given and its counts show the errors.
// Sentence: "fails iff num_experts % shard_ranks != 0 (61 of 61 failing, 0 of 59 passing cases)":
// the condition holds on 61 of the 61 failing cases and on 0 of the 59 passing ones. Use:
// found.predicate = find_predicate(small, signature, run_in_worker, {}).sentence;
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/case/case.h"
#include "harness/minimize/minimize.h"
#include "harness/oracle/verdict.h"

namespace shardfuzz {

// True where the signatures differ at most in the last '|' field, the class (full, short, empty) of
// the offending rank: that class is what changes when rows and ranks do.
bool same_but_for_row_class(std::string_view signature, std::string_view other);

struct PredicateLimits {
  int max_rows = 16;
  int max_ranks = 8;
  int max_evaluations = 120;          // of the grid
  int max_switches = 16;              // further evaluations, for the switches
  std::function<bool()> out_of_time;  // asked before each evaluation; stops with what is known
  std::function<bool(std::string_view, std::string_view)> is_same_failure = same_but_for_row_class;
};

struct Probe {
  std::int64_t rows = 0;
  int ranks = 0;
  bool is_failing = false;  // with the same signature, but for what is_same_failure lets pass
  VerdictKind kind = VerdictKind::kError;
};

struct PredicateResult {
  std::string sentence;                // empty where the minimized case itself did not fail again
  std::string condition;               // "num_experts % shard_ranks != 0", "always"
  std::vector<std::string> necessary;  // "steps >= 2", "delivery == late", ...
  std::string rows_name;               // "num_experts" or "rows"
  int failing = 0, failing_covered = 0;
  int passing = 0, passing_covered = 0;
  int other = 0;            // probes that count for neither side
  std::vector<Probe> grid;  // by ranks, then rows
  int evaluations = 0;
};

PredicateResult find_predicate(const Case& minimal, const std::string& signature,
                               const Evaluate& evaluate, const PredicateLimits& limits);

}  // namespace shardfuzz
