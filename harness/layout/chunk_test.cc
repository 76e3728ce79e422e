#include "harness/layout/chunk.h"

#include <gtest/gtest.h>

namespace shardfuzz::layout {
namespace {

TEST(Chunk, FiveRowsOnFourRanksAreTwoTwoOneNone) {
  const Split split{.total = 5, .ranks = 4};
  EXPECT_EQ(padded_rows(split), 2);
  EXPECT_EQ(chunk_of(split, 0), (Rows{0, 2}));
  EXPECT_EQ(chunk_of(split, 2), (Rows{4, 1}));
  EXPECT_EQ(chunk_of(split, 3), (Rows{5, 0}));
  EXPECT_EQ(class_of(split, 1), ShardClass::kFull);
  EXPECT_EQ(class_of(split, 2), ShardClass::kShort);
  EXPECT_EQ(class_of(split, 3), ShardClass::kEmpty);
}

TEST(Chunk, CoversEveryRowOnceForAllSmallSplits) {
  for (int total = 0; total <= 64; ++total) {
    for (int ranks = 1; ranks <= 16; ++ranks) {
      const Split split{.total = total, .ranks = ranks};
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Rows rows = chunk_of(split, rank);
        EXPECT_EQ(rows.offset, next);
        EXPECT_LE(rows.count, padded_rows(split));
        next += rows.count;
      }
      EXPECT_EQ(next, total);
      EXPECT_EQ(is_even(split), class_of(split, ranks - 1) == ShardClass::kFull);
    }
  }
}

TEST(Chunk, RefusesARankThatIsNotThere) {
  EXPECT_DEATH((void)chunk_of({.total = 4, .ranks = 2}, 2), "rank 2 of 2");
  EXPECT_DEATH((void)padded_rows({.total = 4, .ranks = 0}), "no split");
}

}  // namespace
}  // namespace shardfuzz::layout
