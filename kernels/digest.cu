#include "harness/base/hash.h"
#include "kernels/digest.h"

namespace shardfuzz::kernels {
namespace {

constexpr int kThreads = 256;
constexpr std::uint64_t kBlocksMax = 132 * 8;

// Up to 8 bytes, zero-extended.
__device__ std::uint64_t word_of_bytes(const std::uint8_t* bytes, unsigned count) {
  std::uint64_t word = 0;
  for (unsigned i = 0; i < count; ++i) word |= std::uint64_t{bytes[i]} << (8 * i);
  return word;
}

template <bool kAligned>
__device__ std::uint64_t word_at(const std::uint8_t* data, std::uint64_t i) {
  if constexpr (kAligned) return reinterpret_cast<const std::uint64_t*>(data)[i];
  return word_of_bytes(data + 8 * i, 8);
}

template <bool kAligned>
__global__ void __launch_bounds__(kThreads)
    sum_kernel(const std::uint8_t* data, std::uint64_t bytes, unsigned long long* sum) {
  const std::uint64_t words = bytes / 8, tail = bytes % 8;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  std::uint64_t part = 0;
  for (std::uint64_t i = first; i < words; i += std::uint64_t{gridDim.x} * kThreads) {
    part += mix64(word_at<kAligned>(data, i) ^ mix64(i));
  }
  if (first == 0 && tail != 0) {
    part += mix64(word_of_bytes(data + 8 * words, static_cast<unsigned>(tail)) ^ mix64(words));
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    part += __shfl_xor_sync(0xFFFFFFFFU, part, distance);
  }
  if (threadIdx.x % 32 == 0) atomicAdd(sum, static_cast<unsigned long long>(part));
}

__global__ void finish_kernel(std::uint64_t* digest, std::uint64_t bytes) {
  *digest = mix64(*digest ^ bytes);
}

}  // namespace

cudaError_t digest(const void* data, std::uint64_t bytes, std::uint64_t* digest,
                   cudaStream_t stream) {
  if (digest == nullptr || (bytes != 0 && data == nullptr)) return cudaErrorInvalidValue;
  const cudaError_t cleared = cudaMemsetAsync(digest, 0, sizeof(*digest), stream);
  if (cleared != cudaSuccess) return cleared;
  if (bytes != 0) {
    const std::uint64_t wanted = bytes / 8 / kThreads + 1;
    const auto blocks = static_cast<unsigned>(wanted < kBlocksMax ? wanted : kBlocksMax);
    auto* sum = reinterpret_cast<unsigned long long*>(digest);
    const auto* from = static_cast<const std::uint8_t*>(data);
    if (reinterpret_cast<std::uintptr_t>(data) % 8 == 0) {
      sum_kernel<true><<<blocks, kThreads, 0, stream>>>(from, bytes, sum);
    } else {
      sum_kernel<false><<<blocks, kThreads, 0, stream>>>(from, bytes, sum);
    }
  }
  finish_kernel<<<1, 1, 0, stream>>>(digest, bytes);
  return cudaGetLastError();
}

}  // namespace shardfuzz::kernels
