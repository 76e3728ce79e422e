#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "harness/base/data_fill.h"
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

// The definition, without the loops that vectorise; sizes around those of vectors and the table.
TEST(TensorDigest, IsTheSumThatItsHeaderSays) {
  std::vector<unsigned char> bytes(20'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(mix64(i) >> 8);
  }
  for (const std::size_t size :
       {0U, 1U, 7U, 8U, 9U, 63U, 64U, 65U, 511U, 16'384U, 16'392U, 20'000U}) {
    std::uint64_t sum = 0;
    for (std::size_t at = 0; at < size; at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, size - at));
      sum += mix64(word ^ mix64(at / 8));
    }
    EXPECT_EQ(tensor_digest(bytes.data(), size), mix64(sum ^ size)) << size << " bytes";
  }
}

TEST(FillData, IsTheRemainderOfTheMixedIndex) {
  for (const int range : {kWeightRange, kInputRange}) {
    std::vector<float> data(1'000);
    fill_data(data.data(), 1'000, 7, "experts.w1", range, true);
    const std::uint64_t stream = combine(7, hash_bytes("experts.w1"));
    const auto values = static_cast<std::uint64_t>(2 * range + 1);
    for (std::size_t i = 0; i < data.size(); ++i) {
      const auto want = static_cast<std::int64_t>(mix64(stream + i) % values) - range;
      ASSERT_EQ(data[i], static_cast<float>(want)) << "element " << i << " of range " << range;
    }
  }
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
