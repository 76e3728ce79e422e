#include "harness/trace/detail/align.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <utility>
#include <vector>

#include "harness/base/random.h"

namespace shardfuzz {

void PrintTo(const AlignedPair& pair, std::ostream* out) {  // NOLINT(readability-identifier-naming)
  *out << pair.left << "-" << pair.right;
}

namespace {

using Items = std::vector<AlignItem>;
using Pairs = std::vector<AlignedPair>;

Items keys(const std::vector<int>& list) {
  Items items;
  for (const int key : list) items.push_back({.key = key});
  return items;
}

Items numbers(int first, int count) {
  Items items;
  for (int i = 0; i < count; ++i) items.push_back({.key = first + i});
  return items;
}

TEST(Align, PairsEqualListsElementByElement) {
  EXPECT_EQ(align({}, {}), Pairs{});
  EXPECT_EQ(align(keys({7, 7, 8}), keys({7, 7, 8})), (Pairs{{0, 0}, {1, 1}, {2, 2}}));
}

TEST(Align, LeavesOutWhatOneSideHasMore) {
  EXPECT_EQ(align(keys({1, 2, 3, 4}), keys({1, 3, 4})), (Pairs{{0, 0}, {2, 1}, {3, 2}}));
  EXPECT_EQ(align(keys({1, 3, 4}), keys({1, 2, 3, 4})), (Pairs{{0, 0}, {1, 2}, {2, 3}}));
  EXPECT_EQ(align(keys({1, 2}), {}), Pairs{});
  EXPECT_EQ(align(keys({1, 2}), keys({3, 4})), Pairs{});
  EXPECT_EQ(align(keys({9, 1, 2, 8, 3}), keys({1, 7, 2, 3, 6})), (Pairs{{1, 0}, {2, 2}, {4, 3}}));
}

TEST(Align, OfElementsWithOneKeyThoseOfEqualContentArePaired) {
  const Items left{{5, 1}, {5, 2}, {5, 3}, {5, 4}, {6, 0}};
  const Items right{{5, 2}, {5, 9}, {5, 4}, {6, 1}};
  EXPECT_EQ(align(left, right), (Pairs{{1, 0}, {2, 1}, {3, 2}, {4, 3}}));
}

TEST(Align, EqualContentNeverCostsAPair) {
  const Items left{{5, 1}, {6, 1}, {5, 2}};
  const Items right{{5, 2}, {6, 3}, {5, 4}};
  EXPECT_EQ(align(left, right), (Pairs{{0, 0}, {1, 1}, {2, 2}}));
}

using Score = std::pair<int, int>;  // pairs, of these with equal content

// Straight from the definition, for small lists: the best of all choices.
Score best(const Items& a, const Items& b, std::size_t i = 0, std::size_t j = 0) {
  if (i == a.size() || j == b.size()) return {0, 0};
  const Score skipped = std::max(best(a, b, i + 1, j), best(a, b, i, j + 1));
  if (a[i].key != b[j].key) return skipped;
  const Score rest = best(a, b, i + 1, j + 1);
  return std::max(skipped, {rest.first + 1, rest.second + (a[i] == b[j] ? 1 : 0)});
}

TEST(Align, IsTheBestChoiceForRandomSmallLists) {
  Random random(5);
  const auto list = [&] {
    Items items(static_cast<std::size_t>(random.below(8)));
    for (AlignItem& item : items)
      item = {.key = static_cast<int>(random.below(3)), .content = random.below(3)};
    return items;
  };
  for (int round = 0; round < 2000; ++round) {
    const Items left = list(), right = list();
    const Pairs pairs = align(left, right);
    Score reached{0, 0};
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      ASSERT_EQ(left.at(pairs[i].left).key, right.at(pairs[i].right).key);
      reached.first += 1;
      reached.second += left[pairs[i].left] == right[pairs[i].right] ? 1 : 0;
      if (i == 0) continue;
      ASSERT_LT(pairs[i - 1].left, pairs[i].left);
      ASSERT_LT(pairs[i - 1].right, pairs[i].right);
    }
    ASSERT_EQ(reached, best(left, right));
  }
}

TEST(Align, ListsLongerThanTheWindowAreWorkedThrough) {
  const int many = 5 * static_cast<int>(kAlignWindow);
  Items left = numbers(0, many);
  Items right = left;
  for (std::size_t i = 10; i < left.size(); i += 100) left[i].key = -1, right[i].key = -2;
  left.push_back({.key = -1});  // so that there is no common end
  EXPECT_EQ(align(left, right).size(), static_cast<std::size_t>(many - 52));

  // Nothing common: passed, and not tried for ever.
  EXPECT_EQ(align(numbers(0, many), numbers(many, many)), Pairs{});
  EXPECT_EQ(align(keys({-1}), numbers(0, many)), Pairs{});
  EXPECT_EQ(align(numbers(0, many), keys({-1})), Pairs{});

  // The short side is kept while the long one is passed.
  Items late = numbers(0, many);
  late.push_back({.key = -1});
  late.push_back({.key = -3});
  EXPECT_EQ(align(keys({-1}), late), (Pairs{{0, static_cast<std::size_t>(many)}}));
}

}  // namespace
}  // namespace shardfuzz
