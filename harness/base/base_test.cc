#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/base/hash.h"
#include "harness/base/random.h"
#include "harness/base/result.h"

namespace shardfuzz {
namespace {

// The values are part of file formats: a change here breaks every stored case and trace.
TEST(Hash, ValuesAreFixedForEver) {
  EXPECT_EQ(hex64(hash_bytes("")), "c3817c016ba4ff30");
  EXPECT_EQ(hex64(hash_bytes("shardfuzz.case/1")), hex64(hash_bytes("shardfuzz.case/1")));
  EXPECT_NE(hash_bytes("ab"), hash_bytes("ba"));
}

TEST(TensorDigest, SeesSwapsTailsAndLength) {
  const std::vector<std::uint64_t> words{1, 2, 3};
  const std::vector<std::uint64_t> swapped{2, 1, 3};
  EXPECT_NE(tensor_digest(words.data(), 24), tensor_digest(swapped.data(), 24));
  EXPECT_NE(tensor_digest(words.data(), 24), tensor_digest(words.data(), 23));
  const std::string zeros(9, '\0');
  EXPECT_NE(tensor_digest(zeros.data(), 8), tensor_digest(zeros.data(), 9));
}

TEST(Random, IsPortableAndCoversItsRange) {
  Random random(1);
  std::vector<int> seen(5);
  for (int i = 0; i < 1000; ++i) ++seen[static_cast<std::size_t>(random.between(-2, 2) + 2)];
  for (const int count : seen) EXPECT_GT(count, 150);
  EXPECT_EQ(Random(7).next(), Random(7).next());
}

TEST(ResultTest, HoldsAValueOrAnErrorWithAWayOut) {
  const Result<int> good(3);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(*good, 3);
  const Result<int> bad(Error{.what = "not a number", .where = "/seed", .what_to_do = "give one"});
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().text(), "/seed: not a number (give one)");
  EXPECT_DEATH((void)bad.value(), "not a number");
}

}  // namespace
}  // namespace shardfuzz
