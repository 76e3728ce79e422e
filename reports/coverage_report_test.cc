#include "reports/coverage_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace shardfuzz {
namespace {

// As a worker tells it:
//   10 def f(x):          20 def g():
//   11   a                21   def inner():
//   12   if x:            22     b; c
//   13     d              23   inner()
//   14     e
//   15   h; i
constexpr const char* kHello = R"json({"torch": "2.11.0+cpu", "torchao": "0.18.0", "coverage": {
  "files": [["p/one.py", 3], ["p/two.py", 1]],
  "counters": [
    [0, "line", 11, 11, "f", "a", -1, ""],
    [0, "line", 12, 12, "f", "if x:", 0, ""],
    [0, "branch", 12, 12, "f", "true", 1, "if x:"],
    [0, "branch", 12, 12, "f", "false", 1, ""],
    [0, "line", 13, 13, "f", "d", 1, "if x:"],
    [0, "line", 14, 14, "f", "e", 4, ""],
    [0, "line", 15, 15, "f", "h; i", 1, ""],
    [0, "line", 15, 15, "f", "h; i", 6, ""],
    [1, "line", 21, 21, "g", "def inner():", -1, ""],
    [1, "line", 22, 22, "g.<locals>.inner", "b; c", -1, ""],
    [1, "line", 22, 22, "g.<locals>.inner", "b; c", 9, ""],
    [1, "line", 23, 23, "g", "inner()", 8, ""]]}})json";

class Report : public ::testing::Test {
 protected:
  CoverageReport of(std::vector<std::uint8_t> reached) {
    return report_coverage(parse_coverage_table(kHello).value(), reached, &reasons_);
  }
  void explain(CoverageReason reason) { reasons_.reasons.push_back(std::move(reason)); }

  CoverageReasons reasons_{.torch = "2.11.0", .torchao = "0.18.0"};
};

TEST_F(Report, NothingReachedIsOneGapForEachFunction) {
  const CoverageReport report = of({});
  ASSERT_EQ(report.files.size(), 2U);
  EXPECT_EQ(report.files[0].functions, (CoverageShare{0, 1}));
  EXPECT_EQ(report.files[0].lines, (CoverageShare{0, 5}));  // two statements of line 15 are one
  EXPECT_EQ(report.files[0].branches, (CoverageShare{0, 2}));
  EXPECT_EQ(report.files[1].functions, (CoverageShare{0, 2}));
  EXPECT_EQ(report.files[1].lines, (CoverageShare{0, 3}));
  EXPECT_EQ(report.files[1].branches, CoverageShare{});
  EXPECT_EQ(report.files[0].import_statements, 3);
  ASSERT_EQ(report.gaps.size(), 2U);
  EXPECT_EQ(report.gaps[0].function, "f");
  EXPECT_TRUE(report.gaps[0].is_whole_function);
  EXPECT_EQ(report.gaps[0].line_count, 5);
  EXPECT_EQ(report.gaps[1].function, "g");  // with what is in it
  EXPECT_EQ(report.gaps[1].first_line, 21);
  EXPECT_EQ(report.gaps[1].last_line, 23);
  EXPECT_EQ(report.gaps[1].line_count, 3);
  EXPECT_TRUE(report.arms.empty()) << "arms of lines that were not reached say nothing";
}

TEST_F(Report, ABlockThatWasNotEnteredIsAGap) {
  const CoverageReport report = of({1, 1, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1});
  EXPECT_EQ(report.files[0].functions, (CoverageShare{1, 1}));
  EXPECT_EQ(report.files[0].lines, (CoverageShare{3, 5}));
  EXPECT_EQ(report.files[0].branches, (CoverageShare{1, 2}));
  ASSERT_EQ(report.gaps.size(), 1U);
  EXPECT_EQ(report.gaps[0].first_line, 13);
  EXPECT_EQ(report.gaps[0].last_line, 14);
  EXPECT_EQ(report.gaps[0].line_count, 2);
  EXPECT_EQ(report.gaps[0].guard, "if x:");
  EXPECT_EQ(report.gaps[0].text, "d");
  EXPECT_FALSE(report.gaps[0].is_whole_function);
  EXPECT_TRUE(report.arms.empty()) << "the arm is the gap";
}

TEST_F(Report, AnIfWithoutElseThatIsAlwaysTrueIsAnArm) {
  const CoverageReport report = of({1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 1});
  EXPECT_EQ(report.files[0].lines, (CoverageShare{5, 5})) << "one statement of line 15 will do";
  EXPECT_TRUE(report.gaps.empty());
  ASSERT_EQ(report.arms.size(), 1U);
  EXPECT_EQ(report.arms[0].line, 12);
  EXPECT_EQ(report.arms[0].arm, "false");
}

TEST_F(Report, WhatFollowsAStatementThatNeverEndsIsAGap) {
  const CoverageReport report = of({1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0});
  ASSERT_EQ(report.gaps.size(), 4U);
  EXPECT_EQ(report.gaps[0].text, "e");
  EXPECT_EQ(report.gaps[1].text, "h; i");
  EXPECT_EQ(report.gaps[2].function, "g.<locals>.inner");
  EXPECT_TRUE(report.gaps[2].is_whole_function);
  EXPECT_EQ(report.gaps[3].text, "inner()");
  EXPECT_FALSE(report.gaps[3].is_whole_function);
}

TEST_F(Report, TheFirstReasonThatMatchesIsGivenAndTheUnusedAreNamed) {
  explain({.file = "p/*.py", .function = "f", .at = "if x*", .reason = "x is never true"});
  explain({.file = "p/one.py", .function = "f", .reason = "later"});
  explain({.file = "p/two.py", .function = "*", .at = "*inner*", .reason = "g is old"});
  const CoverageReport report = of({1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0});
  ASSERT_EQ(report.gaps.size(), 2U);
  EXPECT_EQ(report.gaps[0].reason, "x is never true");
  EXPECT_EQ(report.gaps[1].reason, "g is old");
  ASSERT_EQ(report.unused.size(), 1U);
  EXPECT_EQ(report.unused[0].reason, "later");
  EXPECT_FALSE(report.reasons_are_of_other_versions);
  reasons_.torchao = "0.12.0";
  EXPECT_TRUE(of({}).reasons_are_of_other_versions);
}

TEST_F(Report, MarkdownAndJsonSayTheSame) {
  explain({.file = "*", .function = "f", .reason = "a | b"});
  const CoverageReport report = of({1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0});
  const CoverageRun run{.command = "tools/coverage", .cases = 7, .passed = 4, .failed = 3};
  const std::string text = coverage_markdown(report, run);
  for (const char* line :
       {"torch 2.11.0+cpu, torchao 0.18.0. 7 cases on the real target: 4 passed, 3 failed",
        "| `p/one.py` | 1 / 1 (100.0 %) | 3 / 5 (60.0 %) | 0 / 2 (0.0 %) | 3 |",
        "| `p/two.py` | 0 / 2 (0.0 %) | 0 / 3 (0.0 %) | - | 1 |",
        "| all | 1 / 3 (33.3 %) | 3 / 8 (37.5 %) | 0 / 2 (0.0 %) | 4 |",
        "2 stretches of lines, 1 without a known reason.",
        "| 3 | **no reason known** |\n| 2 | a \\| b |",
        "| 13-14 | 2 | `f` | `if x:` `d` | a \\| b |",
        "| 21-23 | 3 | `g` | (never called) | **no reason known** |", "- `f`: 12 false;"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nis missing from\n" << text;
  }
  const auto json = nlohmann::json::parse(coverage_json(report, run));
  EXPECT_EQ(json["cases"], 7);
  EXPECT_EQ(json["files"][0]["lines"]["reached"], 3);
  EXPECT_EQ(json["gaps"][0]["reason"], "a | b");
  EXPECT_EQ(json["gaps"][1]["whole_function"], true);
  EXPECT_EQ(json["arms"][0]["arm"], "false");
}

TEST(CoverageTable, WhatRefersToNothingIsRefused) {
  EXPECT_FALSE(parse_coverage_table(R"({"torch": "", "torchao": ""})").ok());
  const std::string head = R"({"torch": "", "torchao": "", "coverage": {"files": [["a.py", 0]],
                            "counters": [)";
  EXPECT_TRUE(parse_coverage_table(head + R"([0, "line", 1, 1, "f", "a", -1, ""]]}})").ok());
  for (const char* row :
       {R"([1, "line", 1, 1, "f", "a", -1, ""]]}})", R"([0, "line", 1, 1, "f", "a", 0, ""]]}})",
        R"([0, "line", 1, 1, "f", "a", -2, ""]]}})",
        R"([0, "line", "1", 1, "f", "a", -1, ""]]}})"}) {
    const auto table = parse_coverage_table(head + row);
    ASSERT_FALSE(table.ok()) << row;
    EXPECT_FALSE(table.error().what_to_do.empty());
  }
}

TEST(CoverageReasons, BrokenFilesAreRefusedWithWhatIsWrong) {
  const auto refused = [](const std::string& text) {
    const auto reasons = parse_coverage_reasons(text, "r.json");
    return reasons.ok() ? "" : reasons.error().text();
  };
  const std::string head = R"({"schema": "shardfuzz.coverage_reasons/1", "torch": "2", )"
                           R"("torchao": "0", "reasons": [)";
  EXPECT_EQ(refused(head + R"({"file": "a", "function": "f", "reason": "r"}]})"), "");
  EXPECT_NE(refused(head + R"({"file": "a", "function": "f", "why": "r"}]})").find("'why'"),
            std::string::npos);
  EXPECT_NE(refused(head + R"({"file": "a", "function": "f"}]})").find("no field 'reason'"),
            std::string::npos);
  EXPECT_NE(refused(R"({"schema": "other"})").find("not shardfuzz.coverage_reasons/1"),
            std::string::npos);
  EXPECT_NE(refused("{").find("r.json"), std::string::npos);
}

TEST(CoverageReasons, AStarStandsForAnyText) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a*c", "abbc"));
  EXPECT_TRUE(matches("a*", "a"));
  EXPECT_TRUE(matches("*.b.*", "a.b.c"));
  EXPECT_FALSE(matches("a*c", "abcd"));
  EXPECT_FALSE(matches("a", "ab"));
  EXPECT_FALSE(matches("", "a"));
}

}  // namespace
}  // namespace shardfuzz
