#include "kernels/canary.h"

namespace shardfuzz::kernels {
namespace {

constexpr int kThreads = 256;
constexpr std::uint64_t kBlocksMax = 132 * 16;

// A buffer as bytes up to an 8-byte boundary, words, and bytes behind them.
struct Cut {
  std::uint64_t head, words;
};

Cut cut(const void* data, std::uint64_t bytes) {
  const std::uint64_t to_boundary = (8 - reinterpret_cast<std::uintptr_t>(data) % 8) % 8;
  const std::uint64_t head = to_boundary < bytes ? to_boundary : bytes;
  return {head, (bytes - head) / 8};
}

unsigned blocks_for(std::uint64_t words) {
  const std::uint64_t blocks = words / kThreads + 1;
  return static_cast<unsigned>(blocks < kBlocksMax ? blocks : kBlocksMax);
}

__device__ std::uint8_t byte_of(std::uint64_t pattern, std::uint64_t i) {
  return static_cast<std::uint8_t>(pattern >> (i % 8 * 8));
}

__global__ void __launch_bounds__(kThreads)
    fill_kernel(std::uint8_t* data, std::uint64_t bytes, Cut cut, std::uint64_t pattern,
                std::uint64_t turned) {
  const std::uint64_t first = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  auto* words = reinterpret_cast<std::uint64_t*>(data + cut.head);
  for (std::uint64_t i = first; i < cut.words; i += std::uint64_t{gridDim.x} * kThreads) {
    words[i] = turned;
  }
  const std::uint64_t tail = cut.head + cut.words * 8;
  if (first < cut.head) data[first] = byte_of(pattern, first);
  if (first < bytes - tail) data[tail + first] = byte_of(pattern, tail + first);
}

__global__ void __launch_bounds__(kThreads)
    scan_kernel(const std::uint8_t* data, std::uint64_t bytes, Cut cut, std::uint64_t pattern,
                std::uint64_t turned, unsigned long long* found) {
  const std::uint64_t first = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  const auto* words = reinterpret_cast<const std::uint64_t*>(data + cut.head);
  const auto report = [&](std::uint64_t i) {
    atomicMin(found, static_cast<unsigned long long>(i));
  };
  for (std::uint64_t i = first; i < cut.words; i += std::uint64_t{gridDim.x} * kThreads) {
    const std::uint64_t difference = words[i] ^ turned;
    if (difference != 0) {
      report(cut.head + i * 8 + (__ffsll(static_cast<long long>(difference)) - 1) / 8);
      break;  // what follows for this thread lies behind
    }
  }
  const std::uint64_t tail = cut.head + cut.words * 8;
  if (first < cut.head && data[first] != byte_of(pattern, first)) report(first);
  if (first < bytes - tail && data[tail + first] != byte_of(pattern, tail + first)) {
    report(tail + first);
  }
}

}  // namespace

cudaError_t poison_fill(void* data, std::uint64_t bytes, std::uint64_t pattern,
                        cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (data == nullptr) return cudaErrorInvalidValue;
  const Cut parts = cut(data, bytes);
  fill_kernel<<<blocks_for(parts.words), kThreads, 0, stream>>>(
      static_cast<std::uint8_t*>(data), bytes, parts, pattern, pattern_from(pattern, parts.head));
  return cudaGetLastError();
}

cudaError_t canary_scan(const void* data, std::uint64_t bytes, std::uint64_t pattern,
                        std::uint64_t* first, cudaStream_t stream) {
  if (first == nullptr || (bytes != 0 && data == nullptr)) return cudaErrorInvalidValue;
  const cudaError_t cleared = cudaMemsetAsync(first, 0xFF, sizeof(*first), stream);
  if (cleared != cudaSuccess || bytes == 0) return cleared;
  const Cut parts = cut(data, bytes);
  scan_kernel<<<blocks_for(parts.words), kThreads, 0, stream>>>(
      static_cast<const std::uint8_t*>(data), bytes, parts, pattern,
      pattern_from(pattern, parts.head), reinterpret_cast<unsigned long long*>(first));
  return cudaGetLastError();
}

}  // namespace shardfuzz::kernels
