// minimize: the smallest case that still fails in the same way.
//
// Guarantees: the result is `start` or a smaller case (case_size.h) that was evaluated and has the
// same kind of verdict and the same signature; a fixed point is one where no proposal of any pass
// (passes.h) is both smaller and failing, so that minimizing it again changes nothing. `pack` and
// `hook` of a parameter are never changed, nor is what the file says of itself (name, origin, ...).
// Every case is evaluated once at most; invalid candidates cost nothing. No clock and no
// randomness: the same start and the same verdicts give the same result. Refuses: a start that is
// invalid or does not fail with `signature` (end kNotReproduced). Use:  auto small =
// minimize(found, verdict.signature, run_in_worker, {.max_evaluations = 400});
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "harness/case/case.h"
#include "harness/oracle/verdict.h"

namespace shardfuzz {

using Evaluate = std::function<Verdict(const Case&)>;

struct MinimizeProgress {
  const Case& smallest;   // so far
  std::string_view pass;  // that found it
  int evaluations = 0;
};

struct MinimizeLimits {
  int max_evaluations = 400;
  std::function<bool()> out_of_time;                             // asked before each evaluation
  std::function<void(const MinimizeProgress&)> on_smaller_case;  // called for each case taken
};

enum class MinimizeEnd {
  kFixedPoint,     // nothing smaller to be found
  kEvaluations,    // max_evaluations reached
  kOutOfTime,      // out_of_time said so
  kNotReproduced,  // the start itself did not fail with the signature
};

struct MinimizeResult {
  Case smallest;
  Verdict verdict;  // of `smallest`
  int evaluations = 0;
  MinimizeEnd end = MinimizeEnd::kFixedPoint;
};

MinimizeResult minimize(const Case& start, const std::string& signature, const Evaluate& evaluate,
                        const MinimizeLimits& limits);

}  // namespace shardfuzz
