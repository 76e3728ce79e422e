// One matrix product of e4m3fn bytes with row and column scales, in float, stored as bf16.
//
// Guarantees: each output is the float sum over the depth in ascending order, then times the left
// scale, then times the right scale (the order of the GPU kernel's epilogue), rounded to nearest
// even. A product of two e4m3 numbers is exact in float, so FMA and multiply-then-add give the same
// bits and the result is the same on every machine. A depth of 0 gives zeros. NaN is stored as
// 0x7FFF. Refuses nothing: the caller owns sizes and strides. Use:  multiply({.bytes = a, .stride =
// k, .scales = sa}, {.bytes = b, .stride = k, .scales = sb},
//                {.rows = m, .columns = n, .depth = k}, {.bf16 = out, .row_stride = n});
#pragma once

#include <cstdint>

namespace shardfuzz::fp8 {

// The depth is contiguous on both sides; stride is from row to row (left), column to column
// (right).
struct Operand {
  const std::uint8_t* bytes;
  std::int64_t stride;
  const float* scales;  // decode scales (the reciprocals), one a row or column
};
struct ProductShape {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t depth;
};
struct ProductOut {
  std::uint16_t* bf16;
  std::int64_t row_stride;
};

void multiply(const Operand& left, const Operand& right, const ProductShape& shape,
              const ProductOut& out);

}  // namespace shardfuzz::fp8
