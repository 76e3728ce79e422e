// Bugs made of conditions, for the minimizer's laws: what a case must have for the bug to show.
//
// Guarantees: a bug shows exactly where all its conditions hold for the parameters of one pack and
// hook (the signature of a real failure names them too). Every condition can hold on a small case,
// so a perfect minimizer knows where to end.
// Use:  const SyntheticBug bug{"plain", "none", {at_least_ranks(3)}};  minimize(c, kBugSignature,
// bug)
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/case/case.h"
#include "harness/minimize/edits.h"
#include "harness/oracle/verdict.h"

namespace shardfuzz {

// The parameters that a bug is about.
using Suspects = std::vector<ParamRef>;

struct Condition {
  std::string text;  // "world >= 3"
  std::function<bool(const Case& c, const Suspects& suspects)> holds;
  bool is_of_one_param = false;  // it holds where it does for one of the suspects
};

Condition at_least_ranks(int count);
Condition at_least_steps(int count);
Condition at_least_params(int count);
Condition some_rows_uneven();  // rows % shard ranks != 0
Condition some_rank_empty();   // rows < shard ranks
Condition has_operation(OpKind kind);
// All conditions that hold for a case, the above and those on single fields.
std::vector<Condition> conditions_of(const Case& c, const Suspects& suspects);

inline constexpr char kBugSignature[] = "synthetic|P1|none|full";

struct SyntheticBug {
  std::string pack, hook;
  std::vector<Condition> conditions;

  [[nodiscard]] Suspects suspects(const Case& c) const;
  [[nodiscard]] bool shows(const Case& c) const;
  // The verdict of a run: fails with kBugSignature where the bug shows and names a suspect.
  Verdict operator()(const Case& c) const;
  [[nodiscard]] std::string text() const;  // "plain:none, world >= 3, steps >= 2"
};

}  // namespace shardfuzz
