#include "harness/native/numbers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "harness/base/random.h"

namespace shardfuzz::native {
namespace {

constexpr std::int64_t kCount = 1003;  // a vectorised part and a tail

// Numbers of all magnitudes, with zeros, infinities and, where asked for, NaNs.
at::Tensor numbers(Random& random, ScalarType dtype, bool with_nans) {
  at::Tensor made = at::empty({kCount}, at::kFloat);
  auto* data = made.data_ptr<float>();
  for (std::int64_t i = 0; i < kCount; ++i) {
    const auto exponent = static_cast<int>(random.between(-24, 15));
    data[i] = std::ldexp(static_cast<float>(random.between(-2048, 2048)) / 2048.0F, exponent);
    if (random.chance(2)) data[i] = 0.0F;
    if (random.chance(1)) data[i] = std::numeric_limits<float>::infinity();
    if (with_nans && random.chance(3)) data[i] = std::nanf("");
  }
  return made.to(dtype);
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.dtype() == b.dtype() && std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

class Numbers : public testing::TestWithParam<std::tuple<ScalarType, bool>> {
 protected:
  ScalarType dtype() const { return std::get<0>(GetParam()); }
  bool with_nans() const { return std::get<1>(GetParam()); }
  Random random{7};
};

TEST_P(Numbers, ConvertAsAten) {
  for (const ScalarType to : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor from = numbers(random, dtype(), with_nans());
    at::Tensor got = at::empty({kCount}, to);
    convert(got.data_ptr(), to, from.data_ptr(), dtype(), kCount);
    at::Tensor want = at::empty({kCount}, to);
    want.copy_(from);
    EXPECT_TRUE(same_bits(got, want)) << c10::toString(dtype()) << " to " << c10::toString(to);
  }
}

TEST_P(Numbers, AddAsAten) {
  for (const float alpha : {1.0F, -0.015625F, 0.5F}) {
    const at::Tensor a = numbers(random, dtype(), with_nans());
    const at::Tensor b = numbers(random, dtype(), with_nans());
    at::Tensor got = a.clone();
    add(got.data_ptr(), b.data_ptr(), dtype(), kCount, alpha);
    EXPECT_TRUE(same_bits(got, a.clone().add_(b, alpha))) << c10::toString(dtype()) << alpha;
  }
}

TEST_P(Numbers, MultiplyAndDivideAsAten) {
  for (const double factor : {0.5, 1.0 / 3, 3.0, 8.0}) {
    const at::Tensor a = numbers(random, dtype(), with_nans());
    at::Tensor got = a.clone();
    multiply(got.data_ptr(), dtype(), kCount, factor);
    EXPECT_TRUE(same_bits(got, a.mul(factor))) << c10::toString(dtype()) << factor;
    got = a.clone();
    divide(got.data_ptr(), dtype(), kCount, factor);
    EXPECT_TRUE(same_bits(got, a.div(factor))) << c10::toString(dtype()) << factor;
  }
}

TEST_P(Numbers, TagsAreNansAndAreCounted) {
  at::Tensor data = at::zeros({10}, dtype());
  EXPECT_EQ(count_nans(data.data_ptr(), dtype(), 10), 0);
  write_tags(static_cast<char*>(data.data_ptr()) + 3 * data.itemsize(), dtype(), 4);
  EXPECT_EQ(count_nans(data.data_ptr(), dtype(), 10), 4);
  EXPECT_EQ(value_at(data.data_ptr(), dtype(), 2), 0.0);
  EXPECT_TRUE(std::isnan(value_at(data.data_ptr(), dtype(), 3)));
}

INSTANTIATE_TEST_SUITE_P(All, Numbers,
                         testing::Combine(testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                                          testing::Bool()));

}  // namespace
}  // namespace shardfuzz::native
