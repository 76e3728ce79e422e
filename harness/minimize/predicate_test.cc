#include "harness/minimize/predicate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/minimize/condition.h"
#include "harness/minimize/test_cases.h"

namespace shardfuzz {
namespace {

using testing::kSignature;

// What minimize() makes of an uneven-rows bug: 1 expert on 2 ranks, one forward.
Case minimal_case(std::int64_t experts, int ranks) {
  Case c;
  c.mesh.shape = {ranks};
  c.groups.resize(1);
  c.groups[0].name = "root";
  c.groups[0].mixed_precision.param_dtype = DType::kBFloat16;
  ParamSpec param;
  param.name = "w";
  param.shape = {experts, 16, 16};
  param.pack = "torchao_moe_fp8";
  param.hook = "one_arg";
  param.call = CallPath::kGroupedMm;
  c.groups[0].params = {param};
  c.steps = 1;
  c.operations = {{.kind = OpKind::kForward, .group = {}, .param = {}}};
  return c;
}

PredicateResult predicate_of(const Case& c, const testing::Bug& bug) {
  return find_predicate(c, kSignature, testing::evaluate_with(bug), {});
}

TEST(Predicate, FindsUnevenRowsWithRightCounts) {
  const auto bug = testing::bug_on_rows([](auto rows, auto ranks) { return rows % ranks != 0; });
  const PredicateResult result = predicate_of(minimal_case(1, 2), bug);
  int failing = 0;
  int passing = 0;
  for (const Probe& probe : result.grid) {
    EXPECT_EQ(probe.is_failing, probe.rows % probe.ranks != 0);
    (probe.is_failing ? failing : passing) += 1;
  }
  EXPECT_EQ(result.grid.size(), 120u);
  EXPECT_GT(failing, 60);
  EXPECT_GT(passing, 30);
  EXPECT_EQ(result.failing, failing);
  EXPECT_EQ(result.failing_covered, failing);
  EXPECT_EQ(result.passing, passing);
  EXPECT_EQ(result.passing_covered, 0);
  EXPECT_EQ(result.other, 0);
  EXPECT_EQ(result.sentence, "fails iff num_experts % shard_ranks != 0 (" +
                                 std::to_string(failing) + " of " + std::to_string(failing) +
                                 " failing, 0 of " + std::to_string(passing) + " passing cases)");
  EXPECT_LE(result.evaluations, 136);
}

TEST(Predicate, FindsFewerRowsThanRanks) {
  const auto bug = testing::bug_on_rows([](auto rows, auto ranks) { return rows < ranks; });
  EXPECT_EQ(predicate_of(minimal_case(1, 2), bug).condition, "num_experts < shard_ranks");
}

TEST(Predicate, FindsThreeRanks) {
  const auto bug = testing::bug_on_rows([](auto, auto ranks) { return ranks >= 3; });
  const PredicateResult result = predicate_of(minimal_case(1, 3), bug);
  EXPECT_EQ(result.condition, "shard_ranks >= 3");
  EXPECT_EQ(result.passing_covered, 0);
  EXPECT_EQ(result.failing_covered, result.failing);
}

TEST(Predicate, FindsAlways) {
  const auto bug = testing::bug_on_rows([](auto, auto) { return true; });
  const PredicateResult result = predicate_of(minimal_case(1, 1), bug);
  EXPECT_EQ(result.condition, "always");
  EXPECT_EQ(result.sentence,
            "fails on every probed case (120 of 120 failing, 0 of 0 passing cases)");
}

TEST(Predicate, FindsAnEmptyLastRank) {
  const auto bug = testing::bug_on_rows([](auto rows, auto ranks) {
    const auto chunk = (rows + ranks - 1) / ranks;
    return chunk * (ranks - 1) >= rows;
  });
  EXPECT_EQ(predicate_of(minimal_case(1, 2), bug).condition,
            "ceil(num_experts / ceil(num_experts / shard_ranks)) < shard_ranks");
}

TEST(Predicate, FindsTwoTerms) {
  const auto bug =
      testing::bug_on_rows([](auto rows, auto ranks) { return rows % ranks != 0 && rows > ranks; });
  EXPECT_EQ(predicate_of(minimal_case(3, 2), bug).condition,
            "num_experts % shard_ranks != 0 && num_experts > shard_ranks");
}

TEST(Predicate, NamesStepsAndReshardingThatAreNecessary) {
  Case c = minimal_case(1, 1);
  c.groups.push_back(c.groups[0]);
  c.groups[0].params.clear();
  c.groups[1].name = "g1";
  c.groups[1].reshard_after_forward = true;
  c.steps = 2;
  const PredicateResult result = predicate_of(c, testing::nested_reshard_bug);
  EXPECT_EQ(result.necessary, (std::vector<std::string>{"a nested group", "steps >= 2",
                                                        "reshard_after_forward == true"}));
  EXPECT_EQ(result.sentence,
            "fails on every probed case with a nested group and steps >= 2 and "
            "reshard_after_forward == true (120 of 120 failing, 0 of 0 passing cases)");
}

TEST(Predicate, AnotherFailureCountsForNeitherSide) {
  const auto uneven = testing::bug_on_rows([](auto rows, auto ranks) { return rows % ranks != 0; });
  const Evaluate evaluate = [&](const Case& c) {
    Verdict verdict = testing::evaluate_with(uneven)(c);
    if (const auto shown = uneven(c); shown && rows_of(at(c, *shown)) < c.mesh.shard_size()) {
      verdict.signature = "crash|SIGFPE|empty";
    }
    return verdict;
  };
  const PredicateResult result = find_predicate(minimal_case(3, 2), kSignature, evaluate, {});
  EXPECT_EQ(result.condition, "num_experts % shard_ranks != 0");
  EXPECT_EQ(result.other, 28);  // 1..7 rows on more ranks, up to 8
  EXPECT_EQ(result.passing_covered, 0);
}

TEST(Predicate, TheRowClassMayDiffer) {
  const auto uneven = testing::bug_on_rows([](auto rows, auto ranks) { return rows % ranks != 0; });
  const Evaluate evaluate = [&](const Case& c) {
    Verdict verdict = testing::evaluate_with(uneven)(c);
    const auto shown = uneven(c);
    if (shown && rows_of(at(c, *shown)) < c.mesh.shard_size()) {
      verdict.signature = "P1|shape contract|empty";
    }
    return verdict;
  };
  const PredicateResult result = find_predicate(minimal_case(3, 2), kSignature, evaluate, {});
  EXPECT_EQ(result.other, 0);
  PredicateLimits exact;
  exact.is_same_failure = [](std::string_view a, std::string_view b) { return a == b; };
  EXPECT_EQ(find_predicate(minimal_case(3, 2), kSignature, evaluate, exact).other, 28);
}

TEST(Predicate, WithoutASeparationTheErrorsAreInTheCounts) {
  const auto bug = testing::bug_on_rows([](auto rows, auto ranks) {
    if (rows == 5 && ranks == 5) return true;
    return rows % ranks != 0 && !(rows == 7 && ranks == 3);
  });
  PredicateLimits whole_grid;
  whole_grid.max_evaluations = 128;
  const PredicateResult result =
      find_predicate(minimal_case(1, 2), kSignature, testing::evaluate_with(bug), whole_grid);
  EXPECT_EQ(result.condition, "num_experts % shard_ranks != 0");
  EXPECT_EQ(result.failing_covered, result.failing - 1);
  EXPECT_EQ(result.passing_covered, 1);
}

TEST(Predicate, StopsWhenOutOfTime) {
  const auto bug = testing::bug_on_rows([](auto rows, auto ranks) { return rows % ranks != 0; });
  int asked = 0;
  PredicateLimits limits;
  limits.out_of_time = [&] { return ++asked > 20; };
  const PredicateResult result =
      find_predicate(minimal_case(1, 2), kSignature, testing::evaluate_with(bug), limits);
  EXPECT_EQ(result.grid.size(), 20u);
  EXPECT_EQ(result.evaluations, 20);
  EXPECT_FALSE(result.sentence.empty());
}

TEST(Predicate, AThinnedGridStillHasEveryRelation) {
  const auto bug = testing::bug_on_rows([](auto rows, auto ranks) { return rows % ranks != 0; });
  PredicateLimits limits;
  limits.max_evaluations = 24;
  const PredicateResult result =
      find_predicate(minimal_case(1, 2), kSignature, testing::evaluate_with(bug), limits);
  ASSERT_EQ(result.grid.size(), 24u);
  const auto count = [&](auto relation) {
    return std::count_if(result.grid.begin(), result.grid.end(), relation);
  };
  EXPECT_GE(count([](const Probe& p) { return p.rows < p.ranks; }), 5);
  EXPECT_GE(count([](const Probe& p) { return p.rows > p.ranks && p.rows % p.ranks != 0; }), 5);
  EXPECT_GE(count([](const Probe& p) { return p.rows == p.ranks; }), 5);
  EXPECT_GE(count([](const Probe& p) { return p.rows > p.ranks && p.rows % p.ranks == 0; }), 5);
  EXPECT_EQ(result.condition, "num_experts % shard_ranks != 0");
}

TEST(Predicate, APassingCaseHasNone) {
  const auto bug = testing::bug_on_rows([](auto, auto) { return false; });
  const PredicateResult result = predicate_of(minimal_case(1, 2), bug);
  EXPECT_EQ(result.sentence, "");
  EXPECT_EQ(result.evaluations, 1);
}

TEST(Predicate, RowClassIsTheLastField) {
  EXPECT_TRUE(same_but_for_row_class("P4|setStorage|short", "P4|setStorage|empty"));
  EXPECT_FALSE(same_but_for_row_class("P4|setStorage|short", "P3|setStorage|short"));
  EXPECT_FALSE(same_but_for_row_class("hang", "crash"));
}

TEST(Condition, SimplestComesFirst) {
  // On these points "ranks > 1" and "rows % ranks != 0" both separate.
  const std::vector<Point> points = {{1, 1, false}, {3, 2, true}, {5, 2, true}, {4, 1, false}};
  const Separation found = best_condition(points, "rows", "ranks");
  EXPECT_EQ(found.condition, "rows % ranks != 0");
  EXPECT_EQ(found.errors(), 0);
}

}  // namespace
}  // namespace shardfuzz
