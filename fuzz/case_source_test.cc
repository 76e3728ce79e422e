#include "fuzz/case_source.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fuzz/documented_use.h"
#include "harness/case/case_json.h"
#include "harness/case/validate.h"

namespace shardfuzz {
namespace {

std::vector<std::string> texts(CaseSource& source, int count) {
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i) all.push_back(canonical_text(source.next()));
  return all;
}

TEST(CaseSource, WithoutSteeringIsTheNumberedCases) {
  const CaseSeries series{.seed = 5, .command = "test"};
  CaseSource source(series);
  source.skip_to(40);
  for (std::int64_t number = 40; number < 44; ++number) {
    EXPECT_EQ(source.number(), number);
    EXPECT_EQ(canonical_text(source.next()), canonical_text(numbered_case(series, number)));
  }
}

TEST(CaseSource, SkippingAndComingThereGiveTheSameCases) {
  const CaseSeries series{.seed = 6, .steered_one_in = 4};
  CaseSource walked(series), skipped(series);
  texts(walked, 100);
  skipped.skip_to(100);
  EXPECT_EQ(texts(walked, 20), texts(skipped, 20));
}

TEST(CaseSource, SteeringVisitsMoreOfTheDomainInAsManyCases) {
  CaseSource plain(CaseSeries{.seed = 7}), steered(CaseSeries{.seed = 7, .steered_one_in = 4});
  DomainCoverage visited(steered.coverage().lattice());
  for (int i = 0; i < 400; ++i) {
    visited.visit(plain.next());
    const Case c = steered.next();
    ASSERT_TRUE(validate(c).ok());
  }
  EXPECT_GT(steered.coverage().visited_count(), visited.visited_count() * 11 / 10);
}

TEST(CaseSource, DocumentedUseHoldsForSteeredCasesToo) {
  CaseSource source(
      CaseSeries{.seed = 8, .packs = {"plain"}, .documented_use_only = true, .steered_one_in = 2});
  for (int i = 0; i < 200; ++i) {
    const Case c = source.next();
    Case kept = c;
    keep_documented_use(&kept);
    EXPECT_EQ(canonical_text(kept), canonical_text(c));
  }
}

}  // namespace
}  // namespace shardfuzz
