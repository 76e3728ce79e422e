#include "harness/minimize/predicate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "harness/base/hash.h"
#include "harness/case/validate.h"
#include "harness/minimize/condition.h"
#include "harness/minimize/detail/switches.h"
#include "harness/minimize/edits.h"

namespace shardfuzz {
namespace {

constexpr std::string_view kRanksName = "shard_ranks";

struct Cell {
  std::int64_t rows = 1;
  int ranks = 1;
};

// The four ways rows stand to ranks; a thinned grid takes from each in turn.
std::size_t relation_of(const Cell& cell) {
  if (cell.rows < cell.ranks) return 0;
  if (cell.rows % cell.ranks != 0) return 1;
  return cell.rows == cell.ranks ? 2 : 3;
}

// All cells, or as many as may be evaluated. Within a relation the order is a hash, so that what is
// left out is spread over the grid and the same each time.
std::vector<Cell> cells_of(const PredicateLimits& limits, Cell own) {
  std::array<std::vector<Cell>, 4> by_relation;
  for (int ranks = 1; ranks <= limits.max_ranks; ++ranks) {
    for (std::int64_t rows = 1; rows <= limits.max_rows; ++rows) {
      const Cell cell{rows, ranks};
      if (rows == own.rows && ranks == own.ranks) continue;
      by_relation[relation_of(cell)].push_back(cell);
    }
  }
  const auto order = [](const Cell& cell) {
    return combine(static_cast<std::uint64_t>(cell.rows), static_cast<std::uint64_t>(cell.ranks));
  };
  for (auto& cells : by_relation) {
    std::sort(cells.begin(), cells.end(),
              [&](const Cell& a, const Cell& b) { return order(a) < order(b); });
  }
  std::vector<Cell> chosen{own};
  const auto count_max = static_cast<std::size_t>(std::max(1, limits.max_evaluations));
  for (std::size_t i = 0; i < static_cast<std::size_t>(limits.max_rows * limits.max_ranks); ++i) {
    for (const auto& cells : by_relation) {
      if (i < cells.size() && chosen.size() < count_max) chosen.push_back(cells[i]);
    }
  }
  return chosen;
}

class Prober {
 public:
  Prober(const Case& minimal, const std::string& signature, const Evaluate& evaluate,
         const PredicateLimits& limits)
      : minimal_(minimal), signature_(signature), evaluate_(evaluate), limits_(limits) {}

  PredicateResult run() {
    if (!validate(minimal_).ok() || is_out_of_time()) return std::move(result_);
    const Verdict own = judge(minimal_);
    kind_ = own.kind;
    if (!is_failing(own)) return std::move(result_);
    find_parameter(own);
    const Cell own_cell{rows_of(at(minimal_, param_)), minimal_.mesh.shard_size()};
    std::vector<Cell> cells = cells_of(limits_, own_cell);
    record(cells.front(), own);
    for (std::size_t i = 1; i < cells.size() && !is_out_of_time(); ++i) probe(cells[i]);
    std::sort(result_.grid.begin(), result_.grid.end(), [](const Probe& a, const Probe& b) {
      return std::pair(a.ranks, a.rows) < std::pair(b.ranks, b.rows);
    });
    try_switches();
    conclude();
    return std::move(result_);
  }

 private:
  Verdict judge(const Case& c) {
    ++result_.evaluations;
    return evaluate_(c);
  }

  [[nodiscard]] bool is_out_of_time() const { return limits_.out_of_time && limits_.out_of_time(); }

  [[nodiscard]] bool is_failing(const Verdict& verdict) const {
    const bool is_kind =
        verdict.kind == VerdictKind::kFail || verdict.kind == VerdictKind::kRefused;
    return is_kind && verdict.kind == kind_ &&
           limits_.is_same_failure(verdict.signature, signature_);
  }

  // The one that the finding names, else the first of the case.
  void find_parameter(const Verdict& own) {
    std::optional<ParamRef> found;
    if (!own.findings.empty()) {
      found = find_param(minimal_, own.findings.front().group, own.findings.front().param);
    }
    param_ = found.value_or(params_of(minimal_).front());
    const ParamSpec& param = at(minimal_, param_);
    result_.rows_name = param.shape.size() == 3 && param.shard_dim == 0 ? "num_experts" : "rows";
  }

  void probe(Cell cell) {
    Case changed = minimal_;
    set_mesh(&changed, with_shard_size(minimal_.mesh, cell.ranks));
    set_rows(&changed, param_, cell.rows);
    if (!validate(changed).ok()) return;  // not a case: there is nothing to know about it
    record(cell, judge(changed));
  }

  void record(Cell cell, const Verdict& verdict) {
    result_.grid.push_back({cell.rows, cell.ranks, is_failing(verdict), verdict.kind});
  }

  void try_switches() {
    int left = limits_.max_switches;
    for (const Switch& one : switches_for(minimal_, param_)) {
      if (left == 0 || is_out_of_time()) return;
      if (!validate(one.without).ok()) continue;
      --left;
      if (judge(one.without).kind == VerdictKind::kPass) result_.necessary.push_back(one.text);
    }
  }

  void conclude() {
    std::vector<Point> points;
    for (const Probe& probe : result_.grid) {
      if (probe.is_failing || probe.kind == VerdictKind::kPass) {
        points.push_back({probe.rows, probe.ranks, probe.is_failing});
      } else {
        ++result_.other;
      }
    }
    const Separation best = best_condition(points, result_.rows_name, kRanksName);
    result_.condition = best.condition;
    result_.failing = best.failing;
    result_.failing_covered = best.failing_covered;
    result_.passing = best.passing;
    result_.passing_covered = best.passing_covered;
    const std::string needs = fmt::format("{}", fmt::join(result_.necessary, " and "));
    std::string when;
    if (best.is_always) {
      when = needs.empty() ? "on every probed case" : "on every probed case with " + needs;
    } else {
      when = "iff " + best.condition + (needs.empty() ? "" : " and " + needs);
    }
    result_.sentence =
        fmt::format("{} {} ({} of {} failing, {} of {} passing cases)",
                    kind_ == VerdictKind::kRefused ? "is refused" : "fails", when,
                    best.failing_covered, best.failing, best.passing_covered, best.passing);
  }

  const Case& minimal_;
  const std::string& signature_;
  const Evaluate& evaluate_;
  const PredicateLimits& limits_;
  VerdictKind kind_ = VerdictKind::kFail;
  ParamRef param_;
  PredicateResult result_;
};

}  // namespace

bool same_but_for_row_class(std::string_view signature, std::string_view other) {
  // npos where there is no '|': the whole signature counts.
  return signature.substr(0, signature.rfind('|')) == other.substr(0, other.rfind('|'));
}

PredicateResult find_predicate(const Case& minimal, const std::string& signature,
                               const Evaluate& evaluate, const PredicateLimits& limits) {
  return Prober(minimal, signature, evaluate, limits).run();
}

}  // namespace shardfuzz
