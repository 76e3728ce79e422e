#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>

#include "kernels/grouped_gemm.h"

namespace shardfuzz::kernels {
namespace {

constexpr int kTile = 16;
constexpr int kDepth = 64;        // bytes of the depth held at a time
constexpr int kProductsMax = 32;  // by value
constexpr unsigned kBlocksMax = 1U << 16;

struct Batch {
  Product products[kProductsMax];
};

__device__ float decoded(std::uint8_t byte) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(byte, __NV_E4M3)));
}

__device__ std::uint16_t bf16_of(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0x7FFF;
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

// kTile rows (or columns) from `first` on, kDepth of the depth from `from` on; zero outside.
__device__ void load(float (*tile)[kDepth + 1], const fp8::Operand& operand, std::int64_t first,
                     std::int64_t count, std::int64_t from, std::int64_t depth) {
  const int thread = static_cast<int>(threadIdx.y * kTile + threadIdx.x);
  for (int i = thread; i < kTile * kDepth; i += kTile * kTile) {
    const int line = i / kDepth, step = i % kDepth;
    const bool inside = first + line < count && from + step < depth;
    tile[line][step] =
        inside ? decoded(operand.bytes[(first + line) * operand.stride + from + step]) : 0.0F;
  }
}

__device__ void tile_of(const Product& product, std::int64_t first_row, std::int64_t first_column) {
  __shared__ float left[kTile][kDepth + 1], right[kTile][kDepth + 1];
  const fp8::ProductShape& shape = product.shape;
  float sum = 0;
  for (std::int64_t from = 0; from < shape.depth; from += kDepth) {
    load(left, product.left, first_row, shape.rows, from, shape.depth);
    load(right, product.right, first_column, shape.columns, from, shape.depth);
    __syncthreads();
    // A zero beyond the depth changes no sum but that of a -0, which is not to be seen: it starts
    // from +0.
    for (int step = 0; step < kDepth; ++step) {
      sum += left[threadIdx.y][step] * right[threadIdx.x][step];
    }
    __syncthreads();
  }
  const std::int64_t row = first_row + threadIdx.y, column = first_column + threadIdx.x;
  if (row < shape.rows && column < shape.columns) {
    product.out.bf16[row * product.out.row_stride + column] =
        bf16_of(sum * product.left.scales[row] * product.right.scales[column]);
  }
}

__global__ void products_kernel(const __grid_constant__ Batch batch) {
  const Product& product = batch.products[blockIdx.y];
  const std::int64_t tile_columns = (product.shape.columns + kTile - 1) / kTile;
  const std::int64_t tiles = (product.shape.rows + kTile - 1) / kTile * tile_columns;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    tile_of(product, tile / tile_columns * kTile, tile % tile_columns * kTile);
  }
}

bool is_valid(const Product& product) {
  const fp8::ProductShape& shape = product.shape;
  if (shape.rows < 0 || shape.columns < 0 || shape.depth < 0) return false;
  if (shape.rows == 0 || shape.columns == 0) return true;
  const bool has_bytes = product.left.bytes != nullptr && product.right.bytes != nullptr;
  return (shape.depth == 0 || has_bytes) && product.left.scales != nullptr &&
         product.right.scales != nullptr && product.out.bf16 != nullptr;
}

}  // namespace

cudaError_t multiply_products(std::span<const Product> products, cudaStream_t stream) {
  if (!std::all_of(products.begin(), products.end(), is_valid)) return cudaErrorInvalidValue;
  if (products.empty()) return cudaSuccess;
  while (!products.empty()) {
    const auto part = products.first(std::min<std::size_t>(products.size(), kProductsMax));
    products = products.subspan(part.size());
    Batch batch;
    std::copy(part.begin(), part.end(), batch.products);
    std::int64_t tiles = 1;
    for (const Product& product : part) {
      tiles = std::max(tiles, (product.shape.rows + kTile - 1) / kTile *
                                  ((product.shape.columns + kTile - 1) / kTile));
    }
    const unsigned blocks = static_cast<unsigned>(std::min<std::int64_t>(tiles, kBlocksMax));
    products_kernel<<<dim3(blocks, static_cast<unsigned>(part.size())), dim3(kTile, kTile), 0,
                      stream>>>(batch);
  }
  return cudaGetLastError();
}

}  // namespace shardfuzz::kernels
