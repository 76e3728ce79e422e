// Reference for `_scaled_grouped_mm` on a GPU: e4m3fn operands decoded, float sums in ascending
// depth, then times the left scale, then times the right scale, stored as bf16 to nearest even.
//
// The twin of fp8::multiply (harness/real/fp8/matmul.h) and bit for bit equal to it: a product of
// two e4m3 numbers is exact in float, and each sum has one order. It is simple and slow, for
// correctness alone. The real operator sums inside the tensor cores: kernels/against_torchao.py
// holds it to the bound, and to equality where the data are small integers.
//
// Refuses (cudaErrorInvalidValue): negative extents, null pointers. Strides in elements.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

#include "harness/real/fp8/matmul.h"

namespace shardfuzz::kernels {

struct Product {
  fp8::Operand left, right;
  fp8::ProductShape shape;
  fp8::ProductOut out;
};

cudaError_t multiply_products(std::span<const Product> products, cudaStream_t stream);
void multiply_products_cpu(std::span<const Product> products);

// The products that a grouped matmul consists of; `ends` are the group ends, on the host, ascending
// and within the jagged extent.
//   jagged rows   left (tokens, K) row-major, right (E, K, N) with K contiguous -> (tokens, N);
//                 rows at and beyond the last end are not written
//   jagged depth  left (M, tokens) row-major, right (tokens, N) with tokens contiguous ->
//                 (groups, M, N); a group without tokens gives zeros. Scales group-major.
struct JaggedRows {
  fp8::Operand left;
  fp8::Operand right;          // of the first expert
  std::int64_t expert_stride;  // of the right bytes; its scales: N an expert
  std::int64_t columns, depth;
  fp8::ProductOut out;
};
std::vector<Product> products_of(const JaggedRows& matmul, std::span<const std::int32_t> ends);

struct JaggedDepth {
  fp8::Operand left, right;
  std::int64_t rows, columns;
  fp8::ProductOut out;        // of the first group
  std::int64_t group_stride;  // of the output, in elements
};
std::vector<Product> products_of(const JaggedDepth& matmul, std::span<const std::int32_t> ends);

}  // namespace shardfuzz::kernels
