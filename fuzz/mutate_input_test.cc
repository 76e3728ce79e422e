#include "fuzz/mutate_input.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "fuzz/features_of.h"
#include "harness/case/case_json.h"
#include "harness/case/validate.h"

namespace shardfuzz {
namespace {

constexpr int kRounds = 3000;
const GeneratorOptions kOptions;
const GeneratorOptions kControls{.packs = {"plain", "torchao_moe_fp8:padded"}};

void expect_valid(const CaseInput& input, const GeneratorOptions& options) {
  const Case c = case_of(input, options);
  const Status valid = validate(c);
  ASSERT_TRUE(valid) << valid.error().text() << "\n" << canonical_text(c);
  ASSERT_EQ(tidied(input, options), input);
}

TEST(MutateInput, AChainOfMutationsStaysValid) {
  for (const GeneratorOptions& options : {kOptions, kControls}) {
    Random random(1);
    CaseInput input;
    for (int i = 0; i < kRounds; ++i) {
      input = mutated(input, options, random);
      ASSERT_NO_FATAL_FAILURE(expect_valid(input, options)) << "round " << i;
    }
  }
}

TEST(MutateInput, CrossoversAreValid) {
  Random random(2);
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    const CaseInput a = input_of_seed(2 * i, kOptions), b = input_of_seed(2 * i + 1, kOptions);
    ASSERT_NO_FATAL_FAILURE(expect_valid(crossed(a, b, kOptions, random), kOptions));
  }
}

TEST(MutateInput, AMutationChangesTheInput) {
  Random random(3);
  int same = 0;
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    const CaseInput input = input_of_seed(i, kOptions);
    same += mutated(input, kOptions, random) == input ? 1 : 0;
  }
  EXPECT_EQ(same, 0);
}

TEST(MutateInput, TheSameSeedGivesTheSameChildren) {
  std::set<std::vector<std::uint8_t>> mutants, crossovers;
  const CaseInput a = input_of_seed(4, kOptions), b = input_of_seed(5, kOptions);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random first(seed), second(seed);
    const CaseInput mutant = mutated(a, kOptions, first);
    ASSERT_EQ(mutant, mutated(a, kOptions, second));
    mutants.insert(encode_input(mutant));
    const CaseInput child = crossed(a, b, kOptions, first);
    ASSERT_EQ(child, crossed(a, b, kOptions, second));
    crossovers.insert(encode_input(child));
  }
  EXPECT_GT(mutants.size(), 150U);
  EXPECT_GT(crossovers.size(), 150U);
}

// Small steps are what makes a corpus worth having: most parts stay, and sometimes all change.
TEST(MutateInput, MostMutationsLeaveMostPartsAlone) {
  Random random(6);
  std::map<std::size_t, int> parts_changed;
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    const CaseInput input = input_of_seed(i, kOptions);
    const CaseInput mutant = mutated(input, kOptions, random);
    std::size_t changed = 0;
    for (std::size_t p = 0; p < kGeneratedParts; ++p) {
      changed += input.parts[p] == mutant.parts[p] ? 0 : 1;
    }
    ++parts_changed[changed];
  }
  EXPECT_GT(parts_changed[1], kRounds / 2);
  EXPECT_GT(parts_changed[kGeneratedParts] + parts_changed[kGeneratedParts - 1], kRounds / 100);
}

TEST(MutateInput, FromNothingEveryFeatureIsReached) {
  Random random(7);
  CaseInput input;
  Swarm seen;
  for (int i = 0; i < kRounds; ++i) {
    input = mutated(input, kOptions, random);
    const Swarm features = features_of(case_of(input, kOptions));
    for (const Feature feature : all_features())
      seen.set(feature, seen.on(feature) || features.on(feature));
  }
  EXPECT_EQ(to_text(seen), "all");
}

TEST(MutateInput, ACrossoverTakesPartsOfBoth) {
  Random random(8);
  const CaseInput a = input_of_seed(10, kOptions), b = input_of_seed(11, kOptions);
  ASSERT_NE(a.parts[5], b.parts[5]);
  int from_a = 0, from_b = 0, from_both = 0;
  for (int i = 0; i < 300; ++i) {
    const CaseInput child = crossed(a, b, kOptions, random);
    from_a += child.parts[5] == a.parts[5] ? 1 : 0;
    from_b += child.parts[5] == b.parts[5] ? 1 : 0;
    from_both += child.parts[0] == a.parts[0] && child.parts[5] == b.parts[5] ? 1 : 0;
  }
  EXPECT_GT(from_a, 50);
  EXPECT_GT(from_b, 50);
  EXPECT_GT(from_both, 10);
}

}  // namespace
}  // namespace shardfuzz
