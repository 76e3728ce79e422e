// shrink: the minimizer and the predicate search of harness/minimize, run through a Runner.
//
// Guarantees: as minimize() and find_predicate(); the bound in evaluations and time covers
// minimizing, the predicate has its own. An Error only where no worker can be used.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "fuzz/runner.h"
#include "harness/minimize/minimize.h"
#include "harness/minimize/predicate.h"

namespace shardfuzz {

// True from `seconds` after its construction on, or as soon as `is_interrupted` says so.
class Deadline {
 public:
  Deadline(double seconds, std::function<bool()> is_interrupted);
  bool operator()() const;

 private:
  std::chrono::steady_clock::time_point end_;
  std::function<bool()> is_interrupted_;
};

struct ShrinkOptions {
  int max_evaluations = 400;
  std::function<bool()> out_of_time;
  bool find_predicate = true;
  std::function<bool()> predicate_out_of_time;
};

struct Shrunk {
  Case smallest;  // with predicate, expectation and environment filled in
  Verdict verdict;
  int evaluations = 0;  // of the minimizer
  int predicate_evaluations = 0;
  bool is_fixed_point = false;
};

// `verdict` is what the case gave. Nothing may be pending in the runner.
Result<Shrunk> shrink(Runner& runner, const Case& start, const Verdict& verdict,
                      const ShrinkOptions& options);

Result<PredicateResult> probe(Runner& runner, const Case& minimal, const std::string& signature,
                              const std::function<bool()>& out_of_time);

// The probes as a small table: rows down, ranks across.
std::string grid_text(const PredicateResult& result);

}  // namespace shardfuzz
