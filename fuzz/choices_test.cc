#include "fuzz/choices.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

namespace shardfuzz {
namespace {

TEST(Choices, SameSeedSameChoices) {
  Choices a = Choices::from_seed(3), b = Choices::from_seed(3), other = Choices::from_seed(4);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.below(1000), b.below(1000));
  for (int i = 0; i < 100; ++i) other.below(1000);
  EXPECT_NE(a.draws(), other.draws());
}

TEST(Choices, StaysInItsRange) {
  Choices choices = Choices::from_seed(1);
  std::map<std::int64_t, int> seen;
  for (int i = 0; i < 1000; ++i) ++seen[choices.between(-1, 2)];
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_EQ(seen.begin()->first, -1);
  for (const auto& [value, count] : seen) EXPECT_GT(count, 180) << value;
}

TEST(Choices, ChanceIsInPercent) {
  Choices choices = Choices::from_seed(1);
  int hits = 0;
  for (int i = 0; i < 10000; ++i) hits += choices.chance(20) ? 1 : 0;
  EXPECT_NEAR(hits, 2000, 200);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(choices.chance(0));
    EXPECT_TRUE(choices.chance(100));
  }
}

TEST(Choices, WeightsSayHowOften) {
  Choices choices = Choices::from_seed(1);
  std::map<char, int> seen;
  for (int i = 0; i < 8000; ++i) {
    ++seen[choices.weighted<char>({{0, 'n'}, {1, 'a'}, {0, 'n'}, {3, 'b'}, {0, 'n'}})];
  }
  EXPECT_EQ(seen.count('n'), 0U);
  EXPECT_NEAR(seen['a'], 2000, 200);
  EXPECT_NEAR(seen['b'], 6000, 200);
}

TEST(Choices, PicksEachEquallyOften) {
  Choices choices = Choices::from_seed(1);
  std::map<int, int> seen;
  const std::vector<int> values{5, 6, 7};
  for (int i = 0; i < 3000; ++i) ++seen[choices.pick(values)];
  for (int i = 0; i < 3000; ++i) ++seen[choices.pick({5, 6, 7})];
  for (const int value : values) EXPECT_NEAR(seen[value], 2000, 200) << value;
}

TEST(Choices, DrawsMakeTheSameChoicesAgain) {
  Choices first = Choices::from_seed(9);
  const auto take = [](Choices& choices) {
    return std::array<std::int64_t, 4>{choices.below(1U << 31), choices.between(3, 9),
                                       choices.chance(50) ? 1 : 0, choices.pick({4, 5, 6})};
  };
  const auto made = take(first);
  Choices again = Choices::from_draws(first.draws());
  EXPECT_EQ(take(again), made);
  EXPECT_EQ(again.draws(), first.draws());
}

TEST(Choices, AnyDrawsAreASource) {
  Choices choices = Choices::from_draws({7, 4000000000U});
  EXPECT_EQ(choices.below(5), 2U);
  EXPECT_EQ(choices.below(3), 4000000000U % 3);
  EXPECT_EQ(choices.below(1U << 31), 0U) << "behind the end every choice is 0";
}

TEST(Choices, PartsHaveDrawsOfTheirOwn) {
  Choices choices = Choices::from_parts({{1, 2, 3}, {}, {4}});
  EXPECT_EQ(choices.below(100), 1U);
  choices.next_part();
  EXPECT_EQ(choices.below(100), 0U) << "the second part is empty, whatever the first has left";
  choices.next_part();
  EXPECT_EQ(choices.below(100), 4U);
  EXPECT_EQ(choices.below(100), 0U);
  choices.next_part();
  EXPECT_EQ(choices.below(100), 0U) << "behind the last part every choice is 0";
  EXPECT_EQ(choices.parts(), (std::vector<std::vector<std::uint32_t>>{{1}, {0}, {4, 0}, {0}}));
}

TEST(Choices, OtherSourcesGoOnAcrossParts) {
  Choices choices = Choices::from_draws({1, 2, 3});
  choices.next_part();
  EXPECT_EQ(choices.below(100), 1U);
  choices.next_part();
  EXPECT_EQ(choices.below(100), 2U);
  EXPECT_EQ(choices.draws(), (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(choices.parts(), (std::vector<std::vector<std::uint32_t>>{{}, {1}, {2}}));
  Choices again = Choices::from_parts(choices.parts());
  again.next_part();
  EXPECT_EQ(again.below(100), 1U);
}

TEST(Choices, BytesAreTakenAsTheRangeNeeds) {
  const std::array<std::uint8_t, 8> bytes{3, 255, 1, 2, 1, 2, 3, 4};
  Choices choices = Choices::from_bytes(bytes);
  EXPECT_EQ(choices.below(1), 0U) << "takes no byte";
  EXPECT_EQ(choices.below(256), 3U);
  EXPECT_EQ(choices.below(100), 55U);
  EXPECT_EQ(choices.below(257), 0x0102U % 257);
  EXPECT_EQ(choices.below(0xffffffffU), 0x01020304U);
  EXPECT_EQ(choices.below(256), 0U) << "behind the end every choice is 0";
}

TEST(Choices, ZeroIsThePlainChoice) {
  Choices choices = Choices::from_bytes({});
  EXPECT_FALSE(choices.chance(99));
  EXPECT_EQ(choices.pick({8, 9}), 8);
  EXPECT_EQ(choices.between(2, 5), 2);
  EXPECT_EQ(choices.weighted<int>({{0, 1}, {1, 2}, {90, 3}}), 2);
}

TEST(ChoicesDeathTest, AnEmptyRangeIsOurMistake) {
  Choices choices = Choices::from_seed(1);
  EXPECT_DEATH(choices.below(0), "below\\(0\\)");
  EXPECT_DEATH(choices.between(2, 1), "empty range");
  EXPECT_DEATH(choices.pick(std::vector<int>{}), "nothing to pick");
  EXPECT_DEATH(choices.weighted<int>({{0, 1}}), "all 1 weights are 0");
}

}  // namespace
}  // namespace shardfuzz
