#include "fuzz/shrink.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <utility>

namespace shardfuzz {
namespace {

// Adapts the runner to the minimizer's plain function; keeps the first Error, after which every
// verdict is `error` and the search ends by itself.
class Evaluator {
 public:
  explicit Evaluator(Runner& runner) : runner_(runner) {}

  Verdict operator()(const Case& c) {
    if (error_) return {};
    Result<Evaluated> evaluated = runner_.evaluate(c);
    if (!evaluated) {
      error_ = evaluated.error();
      return {};
    }
    return evaluated->verdict;
  }

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  Runner& runner_;
  std::optional<Error> error_;
};

}  // namespace

Deadline::Deadline(double seconds, std::function<bool()> is_interrupted)
    : end_(std::chrono::steady_clock::now() +
           std::chrono::duration_cast<std::chrono::steady_clock::duration>(
               std::chrono::duration<double>(seconds))),
      is_interrupted_(std::move(is_interrupted)) {}

bool Deadline::operator()() const {
  return std::chrono::steady_clock::now() >= end_ || (is_interrupted_ && is_interrupted_());
}

Result<Shrunk> shrink(Runner& runner, const Case& start, const Verdict& verdict,
                      const ShrinkOptions& options) {
  Evaluator evaluator(runner);
  const auto evaluate = [&](const Case& c) { return evaluator(c); };
  MinimizeResult minimized =
      minimize(start, verdict.signature, evaluate,
               {.max_evaluations = options.max_evaluations, .out_of_time = options.out_of_time});
  if (evaluator.error()) return *evaluator.error();
  Shrunk shrunk{.evaluations = minimized.evaluations,
                .is_fixed_point = minimized.end == MinimizeEnd::kFixedPoint};
  const bool kept = minimized.end != MinimizeEnd::kNotReproduced;
  shrunk.smallest = kept ? std::move(minimized.smallest) : start;
  shrunk.verdict = kept && !minimized.verdict.signature.empty() ? minimized.verdict : verdict;
  if (options.find_predicate) {
    const auto found =
        probe(runner, shrunk.smallest, verdict.signature,
              options.predicate_out_of_time ? options.predicate_out_of_time : options.out_of_time);
    if (!found) return found.error();
    shrunk.predicate_evaluations = found->evaluations;
    shrunk.smallest.predicate = found->sentence;
  }
  shrunk.smallest.expect = {.verdict = std::string(name_of(shrunk.verdict.kind)),
                            .signature = shrunk.verdict.signature,
                            .sentence = shrunk.verdict.sentence};
  return shrunk;
}

Result<PredicateResult> probe(Runner& runner, const Case& minimal, const std::string& signature,
                              const std::function<bool()>& out_of_time) {
  Evaluator evaluator(runner);
  PredicateResult found =
      find_predicate(minimal, signature, [&](const Case& c) { return evaluator(c); },
                     {.out_of_time = out_of_time});
  if (evaluator.error()) return *evaluator.error();
  return found;
}

std::string grid_text(const PredicateResult& result) {
  std::map<std::pair<std::int64_t, int>, char> cells;
  std::set<std::int64_t> rows;
  std::set<int> ranks;
  for (const Probe& probe : result.grid) {
    rows.insert(probe.rows);
    ranks.insert(probe.ranks);
    cells[{probe.rows, probe.ranks}] = probe.is_failing                   ? 'F'
                                       : probe.kind == VerdictKind::kPass ? '.'
                                                                          : '?';
  }
  std::string text = "      ";
  for (const int rank_count : ranks) text += fmt::format("{:>3}", rank_count);
  text += '\n';
  for (const std::int64_t row_count : rows) {
    text += fmt::format("{:>6}", row_count);
    for (const int rank_count : ranks) {
      const auto found = cells.find({row_count, rank_count});
      text += fmt::format("{:>3}", found == cells.end() ? ' ' : found->second);
    }
    text += '\n';
  }
  return text;
}

}  // namespace shardfuzz
