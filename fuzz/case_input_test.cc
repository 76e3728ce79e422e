#include "fuzz/case_input.h"

#include <gtest/gtest.h>

#include "harness/base/random.h"
#include "harness/case/case_json.h"
#include "harness/case/validate.h"

namespace shardfuzz {
namespace {

constexpr int kRounds = 2000;
const GeneratorOptions kOptions;

std::vector<std::uint8_t> some_bytes(Random& random) {
  std::vector<std::uint8_t> bytes(random.below(300));
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.below(256));
  return bytes;
}

TEST(CaseInput, AnyBytesAreAValidCase) {
  Random random(1);
  for (int i = 0; i < kRounds; ++i) {
    const Case c = case_of(decode_input(some_bytes(random)), kOptions);
    const Status valid = validate(c);
    ASSERT_TRUE(valid) << valid.error().text() << "\n" << canonical_text(c);
  }
}

TEST(CaseInput, NoBytesAreTheSimplestCase) {
  Choices none = Choices::from_draws({});
  EXPECT_EQ(case_of(decode_input({}), kOptions), generate(none, kOptions));
  EXPECT_EQ(decode_input({}), CaseInput{});
}

TEST(CaseInput, DecodesWhatItEncodes) {
  Random random(2);
  for (int i = 0; i < kRounds; ++i) {
    const CaseInput input = decode_input(some_bytes(random));
    ASSERT_EQ(decode_input(encode_input(input)), input) << "round " << i;
  }
}

TEST(CaseInput, NumbersOfAnySizeAreKept) {
  CaseInput input;
  input.parts[0] = {0, 1, 127, 128, 16383, 16384, 0x80000000U, 0xffffffffU};
  input.parts[kGeneratedParts - 1] = {0, 300};
  EXPECT_EQ(decode_input(encode_input(input)), input);
}

TEST(CaseInput, BytesOfAPart) {
  CaseInput input;
  input.parts[0] = {5, 300};
  input.parts[6] = {7};
  EXPECT_EQ(encode_input(input), (std::vector<std::uint8_t>{2, 5, 0xac, 2, 0, 0, 0, 0, 0, 7}));
}

TEST(CaseInput, ANumberLongerThan32BitsEndsWhereItEnds) {
  const std::vector<std::uint8_t> bytes{2, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 9};
  EXPECT_EQ(decode_input(bytes).parts[0], (Draws{1, 9}));
}

TEST(CaseInput, ACountBeyondTheEndTakesWhatIsThere) {
  const std::vector<std::uint8_t> bytes{200, 1, 2, 3, 0x80};
  EXPECT_EQ(decode_input(bytes).parts[0], (Draws{2, 3, 0}));
}

TEST(CaseInput, TidiedIsTheSameCaseAndItsOwnTidied) {
  Random random(3);
  for (int i = 0; i < kRounds; ++i) {
    const CaseInput input = decode_input(some_bytes(random));
    const CaseInput tidy = tidied(input, kOptions);
    ASSERT_EQ(case_of(tidy, kOptions), case_of(input, kOptions)) << "round " << i;
    ASSERT_EQ(tidied(tidy, kOptions), tidy) << "round " << i;
  }
}

TEST(CaseInput, TidiedDropsWhatNoChoiceTakes) {
  CaseInput input;
  for (Draws& part : input.parts) part.assign(1000, 0);
  EXPECT_EQ(tidied(input, kOptions), CaseInput{});
}

TEST(CaseInput, ASeedsInputIsTheSeedsCase) {
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    Choices choices = Choices::from_seed(seed);
    ASSERT_EQ(case_of(input_of_seed(seed, kOptions), kOptions), generate(choices, kOptions));
  }
}

// What parts are for: another mesh, and the rest is drawn from the same draws.
TEST(CaseInput, ALongerPartMovesNoOther) {
  CaseInput input = input_of_seed(5, kOptions);
  input.parts[4] = {99, 99};  // optimizer and steps
  const Case before = case_of(input, kOptions);
  input.parts[4] = {99, 99, 1, 2, 3};
  input.parts[3].insert(input.parts[3].end(), 50, 77);  // operations
  const Case after = case_of(input, kOptions);
  EXPECT_EQ(after.steps, before.steps);
  EXPECT_EQ(after.optimizer, before.optimizer);
  EXPECT_EQ(after.schedule, before.schedule);
  EXPECT_EQ(after.seed, before.seed);
  EXPECT_EQ(after.groups, before.groups);
}

}  // namespace
}  // namespace shardfuzz
