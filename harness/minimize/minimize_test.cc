#include "harness/minimize/minimize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/case/case_json.h"
#include "harness/case/validate.h"
#include "harness/minimize/case_size.h"
#include "harness/minimize/test_cases.h"

namespace shardfuzz {
namespace {

using testing::Bug;
using testing::kSignature;

constexpr int kStarts = 100;

struct NamedBug {
  std::string name;
  Bug shows;
};
// Else GoogleTest prints bytes.
void PrintTo(const NamedBug& bug, std::ostream* out) { *out << bug.name; }

// Three fields far apart: late delivery, an explicit unshard of the group, momentum.
std::optional<ParamRef> late_unshard_bug(const Case& c) {
  if (c.schedule.delivery != Delivery::kLate || c.mesh.shard_size() < 2) return std::nullopt;
  if (c.optimizer.kind != OptimizerKind::kSgdMomentum) return std::nullopt;
  for (const ParamRef ref : params_of(c)) {
    const bool is_unsharded =
        std::any_of(c.operations.begin(), c.operations.end(), [&](const Operation& op) {
          return op.kind == OpKind::kUnshard && op.group == c.groups[ref.group].name;
        });
    if (is_unsharded && at(c, ref).hook == "one_arg") return ref;
  }
  return std::nullopt;
}

std::vector<NamedBug> bugs() {
  return {
      {"uneven_rows",
       testing::bug_on_rows([](auto rows, auto ranks) { return rows % ranks != 0; })},
      {"three_ranks", testing::bug_on_rows([](auto, auto ranks) { return ranks >= 3; })},
      {"nested_reshard", testing::nested_reshard_bug},
      {"uneven_and_more_rows", testing::bug_on_rows([](auto rows, auto ranks) {
         return rows % ranks != 0 && rows > ranks;
       })},
      {"last_rank_empty", testing::bug_on_rows([](auto rows, auto ranks) {
         const auto chunk = (rows + ranks - 1) / ranks;
         return rows > ranks && (rows + chunk - 1) / chunk < ranks;
       })},
      {"late_unshard", late_unshard_bug},
  };
}

// Every (pack, hook) of a case.
std::set<std::pair<std::string, std::string>> code_under_test(const Case& c) {
  std::set<std::pair<std::string, std::string>> all;
  for (const ParamRef ref : params_of(c)) all.insert({at(c, ref).pack, at(c, ref).hook});
  return all;
}

class MinimizeTest : public ::testing::TestWithParam<NamedBug> {};

TEST_P(MinimizeTest, HundredStartsEndInAtMostTwoForms) {
  Random random(7);
  std::map<std::string, int> forms;
  std::vector<int> costs;
  const Evaluate evaluate = testing::evaluate_with(GetParam().shows);
  for (int i = 0; i < kStarts; ++i) {
    const Case start = testing::failing_case(&random, GetParam().shows);
    MinimizeResult result = minimize(start, kSignature, evaluate, {});
    EXPECT_EQ(result.end, MinimizeEnd::kFixedPoint);
    EXPECT_EQ(result.smallest.name, start.name);
    costs.push_back(result.evaluations);
    result.smallest.name.clear();
    ++forms[canonical_text(result.smallest)];
  }
  std::sort(costs.begin(), costs.end());
  std::string all_forms;
  for (const auto& [text, count] : forms) all_forms += std::to_string(count) + " x\n" + text;
  EXPECT_LE(forms.size(), 2u) << all_forms;
  EXPECT_LE(costs[costs.size() / 2], 150);
  EXPECT_LE(costs.back(), 400);
  RecordProperty("forms", static_cast<int>(forms.size()));
  RecordProperty("median_evaluations", costs[costs.size() / 2]);
  RecordProperty("most_evaluations", costs.back());
}

TEST_P(MinimizeTest, KeepsTheLaws) {
  Random random(11);
  for (int i = 0; i < 30; ++i) {
    const Case start = testing::failing_case(&random, GetParam().shows);
    int evaluations = 0;
    const Evaluate counting = [&](const Case& c) {
      ++evaluations;
      EXPECT_TRUE(validate(c).ok()) << validate(c).error().text();
      const auto known = code_under_test(start);
      for (const auto& code : code_under_test(c)) EXPECT_TRUE(known.contains(code)) << code.second;
      return testing::evaluate_with(GetParam().shows)(c);
    };
    const MinimizeResult result = minimize(start, kSignature, counting, {});
    EXPECT_EQ(result.evaluations, evaluations);
    EXPECT_LE(evaluations, 400);
    EXPECT_TRUE(GetParam().shows(result.smallest));
    EXPECT_EQ(result.verdict.signature, kSignature);
    EXPECT_LE(size_of(result.smallest), size_of(start));
    const MinimizeResult again = minimize(result.smallest, kSignature, counting, {});
    EXPECT_EQ(again.smallest, result.smallest);
    EXPECT_EQ(again.end, MinimizeEnd::kFixedPoint);
  }
}

INSTANTIATE_TEST_SUITE_P(Bugs, MinimizeTest, ::testing::ValuesIn(bugs()),
                         [](const auto& info) { return info.param.name; });

TEST(Minimize, UnevenRowsEndInTheCaseOnePersonWouldWrite) {
  Random random(3);
  const Bug bug = bugs()[0].shows;
  const Case start = testing::failing_case(&random, bug);
  const MinimizeResult result = minimize(start, kSignature, testing::evaluate_with(bug), {});
  Case expected;
  expected.name = start.name;
  expected.groups.push_back({.name = "root",
                             .params = {{.name = "w"}},
                             .reshard_after_forward = {},
                             .mixed_precision = {.param_dtype = DType::kBFloat16}});
  ParamSpec& param = expected.groups[0].params[0];
  param.pack = "torchao_moe_fp8";
  param.hook = "one_arg";
  param.call = CallPath::kGroupedMm;
  param.shape = {1, 16, 16};
  expected.steps = 1;
  expected.operations = {{.kind = OpKind::kForward, .group = {}, .param = {}}};
  EXPECT_EQ(canonical_text(result.smallest), canonical_text(expected));
}

TEST(Minimize, OneFieldThatMattersStays) {
  Random random(5);
  const Bug bug = [](const Case& c) -> std::optional<ParamRef> {
    if (c.schedule.delivery != Delivery::kLate || c.optimizer.lr_log2 > -8) return std::nullopt;
    return ParamRef{0, 0};
  };
  const Case start = testing::failing_case(&random, bug);
  const MinimizeResult result = minimize(start, kSignature, testing::evaluate_with(bug), {});
  EXPECT_EQ(result.smallest.schedule.delivery, Delivery::kLate);
  EXPECT_EQ(result.smallest.optimizer.lr_log2, -8);
  EXPECT_EQ(result.smallest.seed, 0u);
  EXPECT_EQ(result.smallest.batch.values, DataKind::kInteger);
  EXPECT_EQ(result.smallest.mesh.world_size(), 1);
}

TEST(Minimize, KeepsTheSignatureNotJustAFailure) {
  Random random(9);
  const Bug uneven = bugs()[0].shows;
  // Below 3 rows the same code fails in another way.
  const Evaluate evaluate = [&](const Case& c) {
    Verdict verdict = testing::evaluate_with(uneven)(c);
    const auto shown = uneven(c);
    if (shown && rows_of(at(c, *shown)) < 3) verdict.signature = "crash|SIGFPE|empty";
    return verdict;
  };
  Case start = testing::failing_case(&random, uneven);
  while (evaluate(start).signature != kSignature) start = testing::failing_case(&random, uneven);
  const MinimizeResult result = minimize(start, kSignature, evaluate, {});
  EXPECT_EQ(result.verdict.signature, kSignature);
  EXPECT_EQ(result.smallest.mesh.shape, std::vector<int>{2});
  EXPECT_EQ(result.smallest.groups[0].params[0].shape, (std::vector<std::int64_t>{3, 16, 16}));
}

TEST(Minimize, RefusedIsMinimizedAsRefused) {
  Random random(13);
  const Bug bug = bugs()[1].shows;
  const Evaluate evaluate = [&](const Case& c) {
    Verdict verdict = testing::evaluate_with(bug)(c);
    if (verdict.kind == VerdictKind::kFail && c.mesh.shard_size() > 3) {
      verdict.kind = VerdictKind::kRefused;
    }
    return verdict;
  };
  Case start = testing::failing_case(&random, bug);
  while (start.mesh.shard_size() <= 4) start = testing::failing_case(&random, bug);
  const MinimizeResult result = minimize(start, kSignature, evaluate, {});
  EXPECT_EQ(result.verdict.kind, VerdictKind::kRefused);
  EXPECT_EQ(result.smallest.mesh.shape, std::vector<int>{4});
}

// Where the skeleton fails too, nearly all the work is saved: 8 ranks cost much more than 2.
TEST(Minimize, TheSkeletonSavesEvaluations) {
  Random random(37);
  const Bug bug = bugs()[0].shows;
  for (int i = 0; i < 20; ++i) {
    const Case start = testing::failing_case(&random, bug);
    EXPECT_LE(minimize(start, kSignature, testing::evaluate_with(bug), {}).evaluations, 8);
  }
}

// Whether three parameters start in one group or in three, the two that are needed end in the root.
TEST(Minimize, TwoParametersThatAreNeededMeetInTheRoot) {
  const Bug bug = [](const Case& c) -> std::optional<ParamRef> {
    const auto refs = params_of(c);
    return refs.size() < 2 ? std::nullopt : std::optional(refs.back());
  };
  const auto param = [](const char* name) {
    ParamSpec spec;
    spec.name = name;
    spec.shape = {4, 4};
    return spec;
  };
  const auto group = [](const char* name, std::vector<ParamSpec> params) {
    GroupSpec spec;
    spec.name = name;
    spec.params = std::move(params);
    return spec;
  };
  Case one_group;
  one_group.groups = {group("model", {param("a"), param("b"), param("c")})};
  Case a_group_each;
  a_group_each.groups = {group("model", {param("a")}), group("left", {param("a")}),
                         group("right", {param("a")})};
  for (const Case& start : {one_group, a_group_each}) {
    const Case end = minimize(start, kSignature, testing::evaluate_with(bug), {}).smallest;
    ASSERT_EQ(end.groups.size(), 1u);
    ASSERT_EQ(end.groups[0].params.size(), 2u);
    EXPECT_EQ(end.groups[0].name, "root");
    EXPECT_EQ(end.groups[0].params[0].name, "w");
    EXPECT_EQ(end.groups[0].params[1].name, "w1");
    EXPECT_EQ(end.groups[0].params[1].shape, std::vector<std::int64_t>{1});
  }
}

// HSDP over 2 x 2 ranks or one group of 4: where only their number matters, all end in one group.
TEST(Minimize, RanksThatAreNeededEndInOneDimension) {
  Case start;
  start.mesh = {.shape = {2, 2}, .dim_names = {"replicate", "shard"}};
  start.groups.resize(1);
  start.groups[0].name = "root";
  start.groups[0].params = {{.name = "w", .shape = {8, 2, 2}, .tied_to = {}}};
  for (const int ranks : {3, 4}) {
    const Bug bug = [ranks](const Case& c) {
      return c.mesh.world_size() < ranks ? std::nullopt : std::optional(ParamRef{0, 0});
    };
    const Case end = minimize(start, kSignature, testing::evaluate_with(bug), {}).smallest;
    EXPECT_EQ(end.mesh, (Mesh{.shape = {ranks}, .dim_names = {"shard"}}));
  }
}

// Nothing here depends on the order of the two, on the flag or on which parameter is named.
TEST(Minimize, OperationsEndInOneOrderWithPlainFlagsOnTheFirstParameter) {
  Case start;
  start.groups.resize(1);
  start.groups[0].name = "root";
  start.groups[0].params = {{.name = "w", .shape = {2}, .tied_to = {}},
                            {.name = "w1", .shape = {2}, .tied_to = {}}};
  start.operations = {{.kind = OpKind::kFullTensor, .group = "root", .param = "w1"},
                      {.kind = OpKind::kUnshard, .group = "root", .param = {}, .flag = true}};
  const auto has = [](const Case& c, OpKind kind) {
    return std::any_of(c.operations.begin(), c.operations.end(),
                       [&](const Operation& op) { return op.kind == kind; });
  };
  for (const std::size_t params : {1, 2}) {
    const Bug bug = [&](const Case& c) {
      const bool shows =
          params_of(c).size() >= params && has(c, OpKind::kUnshard) && has(c, OpKind::kFullTensor);
      return shows ? std::optional(params_of(c).back()) : std::nullopt;
    };
    const Case end = minimize(start, kSignature, testing::evaluate_with(bug), {}).smallest;
    EXPECT_EQ(params_of(end).size(), params);
    const std::vector<Operation> expected{
        {.kind = OpKind::kUnshard, .group = "root", .param = {}},
        {.kind = OpKind::kFullTensor, .group = "root", .param = "w"}};
    EXPECT_EQ(end.operations, expected);
  }
}

TEST(Minimize, ListsThatAreNeededKeepTheirLeastEntries) {
  Case start;
  start.mesh.shape = {4};
  start.groups.resize(2);
  start.groups[0].name = "root";
  start.groups[1].name = "g1";
  start.groups[1].params = {{.name = "w", .shape = {8, 2, 2}, .tied_to = {}}};
  start.groups[1].unused_on_ranks = {0, 2, 3};
  start.groups[1].reshard_after_forward = 2;
  start.batch.empty_experts = {1, 3, 5};
  start.batch.tokens_by_rank = {4, 9, 1, 2};
  start.schedule.delays = {1, 2, 3, 40};
  start.compare_meshes = {{1}, {2, 2}, {4}};
  const Bug bug = [](const Case& c) -> std::optional<ParamRef> {
    const auto has = [](const std::vector<int>& list, int value) {
      return std::find(list.begin(), list.end(), value) != list.end();
    };
    const bool shows = c.groups.size() > 1 && has(c.groups[1].unused_on_ranks, 2) &&
                       has(c.batch.empty_experts, 3) && c.mesh.world_size() == 4 &&
                       c.groups[1].reshard_after_forward.index() != 0 &&
                       !c.compare_meshes.empty() && c.batch.tokens_by_rank.size() == 4 &&
                       c.batch.tokens_by_rank[1] >= 3 && c.schedule.delays.size() == 4 &&
                       c.schedule.delays[3] >= 7;
    return shows ? std::optional(ParamRef{1, 0}) : std::nullopt;
  };
  const MinimizeResult result = minimize(start, kSignature, testing::evaluate_with(bug), {});
  const Case& end = result.smallest;
  EXPECT_EQ(end.groups[1].unused_on_ranks, std::vector<int>{2});
  EXPECT_EQ(end.batch.empty_experts, std::vector<int>{3});
  EXPECT_EQ(end.batch.tokens_by_rank, (std::vector<int>{1, 3, 1, 1}));
  EXPECT_EQ(end.schedule.delays, (std::vector<int>{0, 0, 0, 7}));
  EXPECT_EQ(end.compare_meshes, std::vector<std::vector<int>>{{1}});
  EXPECT_EQ(end.groups[1].reshard_after_forward, ReshardAfterForward(true));
  EXPECT_EQ(end.groups[1].params[0].shape, (std::vector<std::int64_t>{4, 1, 1}));
  EXPECT_EQ(result.end, MinimizeEnd::kFixedPoint);
}

TEST(Minimize, StopsWhenOutOfTimeAndKeepsTheBest) {
  Random random(17);
  const Bug bug = testing::nested_reshard_bug;
  const Case start = testing::failing_case(&random, bug);
  int asked = 0;
  std::vector<CaseSize> taken;
  MinimizeLimits limits;
  limits.out_of_time = [&] { return ++asked > 12; };
  limits.on_smaller_case = [&](const MinimizeProgress& progress) {
    taken.push_back(size_of(progress.smallest));
    EXPECT_FALSE(progress.pass.empty());
  };
  const MinimizeResult result = minimize(start, kSignature, testing::evaluate_with(bug), limits);
  EXPECT_EQ(result.end, MinimizeEnd::kOutOfTime);
  EXPECT_EQ(result.evaluations, 12);
  EXPECT_TRUE(bug(result.smallest));
  ASSERT_FALSE(taken.empty());
  EXPECT_EQ(size_of(result.smallest), taken.back());
  EXPECT_TRUE(std::is_sorted(taken.rbegin(), taken.rend()));
}

TEST(Minimize, StopsAtMaxEvaluations) {
  Random random(19);
  const Bug bug = testing::nested_reshard_bug;
  const Case start = testing::failing_case(&random, bug);
  const MinimizeResult result =
      minimize(start, kSignature, testing::evaluate_with(bug), {.max_evaluations = 5});
  EXPECT_EQ(result.end, MinimizeEnd::kEvaluations);
  EXPECT_EQ(result.evaluations, 5);
  EXPECT_TRUE(bug(result.smallest));
}

TEST(Minimize, AStartThatPassesIsNotReproduced) {
  Random random(23);
  const Case start = testing::random_case(&random);
  const Bug never = [](const Case&) { return std::nullopt; };
  const MinimizeResult result = minimize(start, kSignature, testing::evaluate_with(never), {});
  EXPECT_EQ(result.end, MinimizeEnd::kNotReproduced);
  EXPECT_EQ(result.evaluations, 1);
  EXPECT_EQ(result.smallest, start);
}

TEST(Minimize, AnInvalidStartCostsNothing) {
  Case start;  // without groups
  const Evaluate evaluate = testing::evaluate_with([](const Case&) { return ParamRef{}; });
  const MinimizeResult result = minimize(start, kSignature, evaluate, {});
  EXPECT_EQ(result.end, MinimizeEnd::kNotReproduced);
  EXPECT_EQ(result.evaluations, 0);
}

TEST(Minimize, WithoutFindingsItFindsTheParameterAnyway) {
  Random random(29);
  const Bug bug = bugs()[0].shows;
  const Evaluate evaluate = [&](const Case& c) {
    Verdict verdict = testing::evaluate_with(bug)(c);
    verdict.findings.clear();
    return verdict;
  };
  for (int i = 0; i < 20; ++i) {
    const Case start = testing::failing_case(&random, bug);
    const MinimizeResult result = minimize(start, kSignature, evaluate, {});
    EXPECT_EQ(result.end, MinimizeEnd::kFixedPoint);
    EXPECT_EQ(result.smallest.mesh.shape, std::vector<int>{2});
    ASSERT_EQ(params_of(result.smallest).size(), 1u);
    EXPECT_EQ(result.smallest.groups[0].params[0].shape, (std::vector<std::int64_t>{1, 16, 16}));
  }
}

}  // namespace
}  // namespace shardfuzz
