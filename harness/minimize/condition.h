// Condition: what may separate failing from passing cases, as a test and as text.
//
// Guarantees: conditions depend on two numbers only: the rows (or experts) of a parameter and the
// ranks that share them. best_condition returns the first condition, simplest first, that holds on
// every failing point and on no passing one; where there is none, the one with the fewest wrong
// points. Use:  Separation found = best_condition(points, "num_experts", "shard_ranks");
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardfuzz {

struct Point {
  std::int64_t rows = 1;
  std::int64_t ranks = 1;
  bool is_failing = false;
};

struct Separation {
  std::string condition;  // "num_experts % shard_ranks != 0"; "always" where it holds everywhere
  bool is_always = false;
  int failing = 0, failing_covered = 0;  // points, and those of them on which the condition holds
  int passing = 0, passing_covered = 0;
  [[nodiscard]] int errors() const { return failing - failing_covered + passing_covered; }
};

Separation best_condition(const std::vector<Point>& points, std::string_view rows_name,
                          std::string_view ranks_name);

}  // namespace shardfuzz
