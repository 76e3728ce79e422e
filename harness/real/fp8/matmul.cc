#include "harness/real/fp8/matmul.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <vector>

#include "harness/real/fp8/recipe.h"

namespace shardfuzz::fp8 {
namespace {

// A block of outputs that fits the registers. Operands are padded to whole blocks with zeros.
constexpr std::int64_t kRows = 4;
constexpr std::int64_t kColumns = 8;

std::uint16_t bf16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto rounded = static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
  return (bits & 0x7FFFFFFFU) > 0x7F800000U ? std::uint16_t{0x7FFF} : rounded;
}

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// [row][depth] floats of the left operand.
void decode_left(const Operand& left, const ProductShape& shape, float* __restrict out) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const std::uint8_t* __restrict in = left.bytes + row * left.stride;
    for (std::int64_t k = 0; k < shape.depth; ++k) out[row * shape.depth + k] = kE4m3Values[in[k]];
  }
}

// [depth][kColumns] floats of the columns first .. first + width of the right operand.
void decode_panel(const Operand& right, std::int64_t first, std::int64_t width, std::int64_t depth,
                  float* __restrict out) {
  for (std::int64_t j = 0; j < width; ++j) {
    const std::uint8_t* __restrict in = right.bytes + (first + j) * right.stride;
    for (std::int64_t k = 0; k < depth; ++k) out[k * kColumns + j] = kE4m3Values[in[k]];
  }
}

// Four floats. Written out, since compilers vectorise the loop over rows instead of the one over
// columns, at a tenth of the speed.
using Lanes [[gnu::vector_size(16)]] = float;

// kRows x kColumns sums, the depth ascending.
void accumulate(const float* __restrict left, const float* __restrict panel, std::int64_t depth,
                float* __restrict out) {
  Lanes sums[kRows][2] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    Lanes columns[2];
    std::memcpy(columns, panel + k * kColumns, sizeof(columns));
    for (std::int64_t i = 0; i < kRows; ++i) {
      const float factor = left[i * depth + k];
      sums[i][0] += columns[0] * factor;
      sums[i][1] += columns[1] * factor;
    }
  }
  std::memcpy(out, sums, sizeof(sums));
}

}  // namespace

void multiply(const Operand& left, const Operand& right, const ProductShape& shape,
              const ProductOut& out) {
  const std::int64_t padded_rows = round_up(shape.rows, kRows);
  std::vector<float> decoded(static_cast<std::size_t>(padded_rows * shape.depth));
  std::vector<float> panel(static_cast<std::size_t>(shape.depth * kColumns));
  decode_left(left, shape, decoded.data());
  for (std::int64_t column = 0; column < shape.columns; column += kColumns) {
    const std::int64_t width = std::min(kColumns, shape.columns - column);
    if (width < kColumns) std::fill(panel.begin(), panel.end(), 0.0F);
    decode_panel(right, column, width, shape.depth, panel.data());
    for (std::int64_t row = 0; row < shape.rows; row += kRows) {
      float sums[kRows * kColumns];
      accumulate(decoded.data() + row * shape.depth, panel.data(), shape.depth, sums);
      const std::int64_t height = std::min(kRows, shape.rows - row);
      for (std::int64_t i = 0; i < height; ++i) {
        std::uint16_t* __restrict target = out.bf16 + (row + i) * out.row_stride + column;
        for (std::int64_t j = 0; j < width; ++j) {
          target[j] =
              bf16_of(sums[i * kColumns + j] * left.scales[row + i] * right.scales[column + j]);
        }
      }
    }
  }
}

}  // namespace shardfuzz::fp8
