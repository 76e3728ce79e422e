// Buffers whose untouched bytes can be told: filled with a pattern, looked through afterwards.
//
// Byte i of a buffer is byte i % 8 of the pattern (little-endian), whatever the buffer's alignment,
// so any part of a buffer can be looked through with the pattern turned by its offset
// (pattern_from). Guarantees: no byte outside is read or written; the scan gives the first byte
// that differs, the same whatever the launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace shardfuzz::kernels {

// NaN as fp32, bf16 and fp16, and at every other byte as e4m3.
inline constexpr std::uint64_t kPoison = 0xFFFBFFFBFFFBFFFBULL;
inline constexpr std::uint64_t kIntact = ~0ULL;  // what a scan that found nothing gives

constexpr std::uint64_t pattern_from(std::uint64_t pattern, std::uint64_t offset) {
  const std::uint64_t bits = offset % 8 * 8;
  return bits == 0 ? pattern : (pattern >> bits) | (pattern << (64 - bits));
}

cudaError_t poison_fill(void* data, std::uint64_t bytes, std::uint64_t pattern,
                        cudaStream_t stream);
void poison_fill_cpu(void* data, std::uint64_t bytes, std::uint64_t pattern);

// *first (device memory) is the index of the first byte that is not the pattern's, or kIntact.
cudaError_t canary_scan(const void* data, std::uint64_t bytes, std::uint64_t pattern,
                        std::uint64_t* first, cudaStream_t stream);
std::uint64_t canary_scan_cpu(const void* data, std::uint64_t bytes, std::uint64_t pattern);

}  // namespace shardfuzz::kernels
