#include "fuzz/explore.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "harness/case/case_json.h"

namespace shardfuzz {
namespace {

const CaseSeries kSeries{
    .seed = 3, .packs = {"plain", "torchao_moe_fp8"}, .steered_one_in = 4, .command = "test"};

TEST(ExploreSession, AnAnswerDependsOnTheRequestAlone) {
  native::NativeTarget target;
  ExploreSession walks(&target), jumps(&target);
  walks.run({.series = kSeries, .first = 0, .count = 64});
  const std::string second = answer_text(walks.run({.series = kSeries, .first = 64, .count = 64}));
  EXPECT_EQ(answer_text(jumps.run({.series = kSeries, .first = 64, .count = 64})), second);
  walks.run({.series = kSeries, .first = 0, .count = 8});  // backwards: from the start again
  EXPECT_EQ(answer_text(walks.run({.series = kSeries, .first = 64, .count = 64})), second);
}

TEST(ExploreSession, KeepsTheFirstCaseOfEachSignature) {
  native::NativeTarget target;
  ExploreSession session(&target);
  const ExploreAnswer answer = session.run({.series = kSeries, .first = 0, .count = 256});
  std::int64_t skipped = 0;
  for (const auto& [reason, count] : answer.skipped) skipped += count;
  EXPECT_EQ(answer.cases + skipped, 256);
  EXPECT_EQ(answer.passed + answer.failed + answer.refused, answer.cases);
  ASSERT_GE(answer.failures.size(), 3U);  // of 256 cases of hooks that are wrong
  std::set<std::string> signatures;
  for (const ExploreAnswer::Failure& failure : answer.failures) {
    EXPECT_TRUE(signatures.insert(failure.signature).second) << failure.signature;
  }
  const auto sent = parse_explore_answer(answer_text(answer));
  ASSERT_TRUE(sent.ok());
  EXPECT_EQ(canonical_text(sent->failures[2].the_case),
            canonical_text(answer.failures[2].the_case));
  EXPECT_FALSE(parse_explore_answer("{}").ok());
}

}  // namespace
}  // namespace shardfuzz
