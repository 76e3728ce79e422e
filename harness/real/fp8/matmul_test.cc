// The product against a plain triple loop, bit for bit: same order, so same sums.
#include "harness/real/fp8/matmul.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "harness/base/random.h"
#include "harness/real/fp8/recipe.h"

namespace shardfuzz::fp8 {
namespace {

float value_of_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Nearest bf16 by distance, ties to even; finite input within range.
std::uint16_t nearest_bf16(float value) {
  const auto low = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  const auto high = static_cast<std::uint16_t>(low + 1);
  const double down = std::fabs(static_cast<double>(value) - value_of_bf16(low));
  const double up = std::fabs(static_cast<double>(value_of_bf16(high)) - value);
  if (down == up) return low % 2 == 0 ? low : high;
  return down < up ? low : high;
}

struct Problem {
  ProductShape shape;
  std::vector<std::uint8_t> left, right;
  std::vector<float> left_scales, right_scales;
};

std::vector<std::uint8_t> random_bytes(Random& random, std::int64_t count) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count));
  for (auto& byte : bytes) {
    do byte = static_cast<std::uint8_t>(random.below(256));
    while ((byte & 0x7F) == kNanByte);
  }
  return bytes;
}

std::vector<float> random_powers(Random& random, std::int64_t count) {
  std::vector<float> powers(static_cast<std::size_t>(count));
  for (auto& power : powers) power = std::ldexp(1.0F, static_cast<int>(random.between(-20, 20)));
  return powers;
}

Problem random_problem(Random& random, const ProductShape& shape) {
  return {shape, random_bytes(random, shape.rows * shape.depth),
          random_bytes(random, shape.columns * shape.depth), random_powers(random, shape.rows),
          random_powers(random, shape.columns)};
}

std::vector<std::uint16_t> run(const Problem& problem, std::int64_t row_stride) {
  const ProductShape& shape = problem.shape;
  std::vector<std::uint16_t> out(static_cast<std::size_t>(shape.rows * row_stride + 1), 0xABCD);
  multiply({problem.left.data(), shape.depth, problem.left_scales.data()},
           {problem.right.data(), shape.depth, problem.right_scales.data()}, shape,
           {out.data(), row_stride});
  return out;
}

TEST(Multiply, PlainLoopBitForBit) {
  Random random(11);
  for (const ProductShape& shape : std::vector<ProductShape>{
           {1, 16, 16}, {3, 16, 16}, {16, 32, 48}, {5, 24, 7}, {32, 64, 256}, {17, 1, 1}}) {
    const Problem problem = random_problem(random, shape);
    const std::int64_t row_stride = shape.columns + 3;
    const std::vector<std::uint16_t> out = run(problem, row_stride);
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      for (std::int64_t column = 0; column < shape.columns; ++column) {
        float sum = 0;
        for (std::int64_t k = 0; k < shape.depth; ++k) {
          sum += kE4m3Values[problem.left[row * shape.depth + k]] *
                 kE4m3Values[problem.right[column * shape.depth + k]];
        }
        const float scaled = sum * problem.left_scales[row] * problem.right_scales[column];
        ASSERT_EQ(out[row * row_stride + column], nearest_bf16(scaled))
            << row << ", " << column << " of " << shape.rows << " x " << shape.columns;
      }
      for (std::int64_t gap = shape.columns; gap < row_stride; ++gap) {
        ASSERT_EQ(out[row * row_stride + gap], 0xABCD);
      }
    }
    EXPECT_EQ(out.back(), 0xABCD);
  }
}

// 448 * 448, its negative, then 2^-18: any other order loses the last product.
TEST(Multiply, DepthAscends) {
  Problem problem{{1, 1, 3}, {0x7E, 0x7E, 0x01}, {0x7E, 0xFE, 0x01}, {1.0F}, {1.0F}};
  EXPECT_EQ(value_of_bf16(run(problem, 1)[0]), 0x1p-18F);
}

TEST(Multiply, DepthZeroGivesZeros) {
  Random random(12);
  const auto out = run(random_problem(random, {4, 16, 0}), 16);
  for (std::size_t i = 0; i + 1 < out.size(); ++i) EXPECT_EQ(out[i], 0);
}

TEST(Multiply, NoRowsWritesNothing) {
  Random random(13);
  EXPECT_EQ(run(random_problem(random, {0, 16, 16}), 16), std::vector<std::uint16_t>{0xABCD});
}

// The epilogue multiplies by the left scale first, and that may overflow (recipe of the GPU
// kernel).
TEST(Multiply, LeftScaleFirst) {
  Problem problem{{1, 1, 1}, {0x7E}, {0x7E}, {0x1p120F}, {0x1p-48F}};
  EXPECT_EQ(value_of_bf16(run(problem, 1)[0]), std::numeric_limits<float>::infinity());
  std::swap(problem.left_scales, problem.right_scales);
  EXPECT_EQ(value_of_bf16(run(problem, 1)[0]), 448.0F * 448.0F * 0x1p72F);
}

TEST(Multiply, NanStaysInItsRow) {
  Random random(14);
  Problem problem = random_problem(random, {6, 16, 16});
  problem.left[2 * 16 + 5] = kNanByte;
  const auto out = run(problem, 16);
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t column = 0; column < 16; ++column) {
      EXPECT_EQ(out[row * 16 + column] == 0x7FFF, row == 2) << row << ", " << column;
    }
  }
}

}  // namespace
}  // namespace shardfuzz::fp8
