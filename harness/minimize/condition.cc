#include "harness/minimize/condition.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "harness/base/check.h"

namespace shardfuzz {
namespace {

// Numbers in conditions beyond this say more about the grid than about the failure.
constexpr std::int64_t kConstantMax = 16;

// Two terms that are wrong somewhere must be wrong this many times less often than the best single
// one: a second term always explains away a point or two.
constexpr int kConjunctionGain = 4;

std::int64_t ceil_div(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

struct Condition {
  std::string text;
  std::function<bool(const Point&)> holds;
};

// Relations between rows and ranks, and ranks alone: what failures usually depend on, simplest
// first.
std::vector<Condition> relations(std::string_view d, std::string_view w) {
  return {
      {fmt::format("{} % {} != 0", d, w), [](const Point& p) { return p.rows % p.ranks != 0; }},
      {fmt::format("{} < {}", d, w), [](const Point& p) { return p.rows < p.ranks; }},
      {fmt::format("{} > 1", w), [](const Point& p) { return p.ranks > 1; }},
      {fmt::format("{} % {} == 0", d, w), [](const Point& p) { return p.rows % p.ranks == 0; }},
      {fmt::format("{} > {}", d, w), [](const Point& p) { return p.rows > p.ranks; }},
      {fmt::format("{} == {}", d, w), [](const Point& p) { return p.rows == p.ranks; }},
      {fmt::format("{} >= {}", d, w), [](const Point& p) { return p.rows >= p.ranks; }},
      // FSDP2 cuts into pieces of ceil(rows / ranks): the last ranks may get nothing, and the last
      // one that gets something may get less.
      {fmt::format("ceil({0} / ceil({0} / {1})) < {1}", d, w),
       [](const Point& p) { return ceil_div(p.rows, ceil_div(p.rows, p.ranks)) < p.ranks; }},
      {fmt::format("{0} % ceil({0} / {1}) != 0", d, w),
       [](const Point& p) { return p.rows % ceil_div(p.rows, p.ranks) != 0; }},
  };
}

// Comparisons with a number: perfect on a grid more easily than a relation is, so they come later.
std::vector<Condition> comparisons(const std::vector<Point>& points, std::string_view d,
                                   std::string_view w) {
  std::vector<Condition> all;
  std::int64_t rows_max = 1;
  std::int64_t ranks_max = 1;
  for (const Point& p : points) {
    rows_max = std::min(kConstantMax, std::max(rows_max, p.rows));
    ranks_max = std::min(kConstantMax, std::max(ranks_max, p.ranks));
  }
  const auto add = [&](std::string_view name, const char* op, std::int64_t k, auto holds) {
    all.push_back({fmt::format("{} {} {}", name, op, k), holds});
  };
  for (std::int64_t k = 3; k <= ranks_max; ++k) {
    add(w, ">=", k, [k](const Point& p) { return p.ranks >= k; });
  }
  for (std::int64_t k = 1; k <= ranks_max; ++k) {
    add(w, "==", k, [k](const Point& p) { return p.ranks == k; });
  }
  for (std::int64_t k = 1; k <= rows_max; ++k) {
    add(d, "==", k, [k](const Point& p) { return p.rows == k; });
  }
  for (std::int64_t k = 2; k <= rows_max; ++k) {
    add(d, ">=", k, [k](const Point& p) { return p.rows >= k; });
  }
  for (std::int64_t k = 2; k < ranks_max; ++k) {
    add(w, "<=", k, [k](const Point& p) { return p.ranks <= k; });
  }
  for (std::int64_t k = 2; k < rows_max; ++k) {
    add(d, "<=", k, [k](const Point& p) { return p.rows <= k; });
  }
  return all;
}

Separation measure(const std::vector<Point>& points, std::string text,
                   const std::function<bool(const Point&)>& holds) {
  Separation result;
  result.condition = std::move(text);
  for (const Point& point : points) {
    const bool is_covered = holds(point);
    (point.is_failing ? result.failing : result.passing) += 1;
    if (is_covered) (point.is_failing ? result.failing_covered : result.passing_covered) += 1;
  }
  return result;
}

}  // namespace

Separation best_condition(const std::vector<Point>& points, std::string_view rows_name,
                          std::string_view ranks_name) {
  Separation best = measure(points, "always", [](const Point&) { return true; });
  best.is_always = true;
  const auto consider = [&](Separation candidate) {
    if (candidate.errors() < best.errors()) best = std::move(candidate);
    return best.errors() == 0;
  };
  if (best.errors() == 0) return best;
  std::vector<Condition> singles = relations(rows_name, ranks_name);
  const std::size_t relation_count = singles.size();
  for (Condition& condition : comparisons(points, rows_name, ranks_name)) {
    singles.push_back(std::move(condition));
  }
  for (const Condition& one : singles) {
    if (consider(measure(points, one.text, one.holds))) return best;
  }
  const int single_errors = best.errors();
  // Two relations, then a relation and a number, then two numbers.
  for (const int numbers : {0, 1, 2}) {
    for (std::size_t i = 0; i < singles.size(); ++i) {
      for (std::size_t j = i + 1; j < singles.size(); ++j) {
        if (static_cast<int>(i >= relation_count) + static_cast<int>(j >= relation_count) !=
            numbers) {
          continue;
        }
        const Condition& a = singles[i];
        const Condition& b = singles[j];
        const auto both = [&](const Point& p) { return a.holds(p) && b.holds(p); };
        Separation pair = measure(points, a.text + " && " + b.text, both);
        if (pair.errors() * kConjunctionGain > single_errors) continue;
        if (consider(std::move(pair))) return best;
      }
    }
  }
  return best;
}

}  // namespace shardfuzz
