#include <algorithm>

#include "kernels/shard_copy.h"

namespace shardfuzz::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kSegmentsMax = 96;                  // by value: a kernel's parameters have 4 KiB
constexpr std::uint64_t kBlockBytes = 64 * 1024;  // what one block does of a segment

struct Batch {
  Segment segments[kSegmentsMax];
};

struct Shifted {
  const std::uint32_t* words;  // the aligned word in which the source begins
  unsigned bits;               // where in that word
};

// 16 bytes from any address, by five aligned words; copy() sees to it that all five are inside.
__device__ uint4 load_shifted(const Shifted& source, std::uint64_t vector) {
  const std::uint32_t* from = source.words + vector * 4;
  std::uint32_t words[5];
#pragma unroll
  for (int i = 0; i < 5; ++i) words[i] = from[i];
  const auto word = [&](int i) { return __funnelshift_r(words[i], words[i + 1], source.bits); };
  return make_uint4(word(0), word(1), word(2), word(3));
}

__device__ std::uint64_t smaller(std::uint64_t a, std::uint64_t b) { return a < b ? a : b; }

// Bytes [0, count) of the target: first up to its alignment, then vectors, then the rest.
__device__ void copy(const std::uint8_t* from, std::uint8_t* to, std::uint64_t count) {
  std::uint64_t head = (16 - reinterpret_cast<std::uintptr_t>(to) % 16) % 16;
  const std::uint64_t shift = reinterpret_cast<std::uintptr_t>(from + head) % 16;
  const std::uint64_t word_shift = shift % 4;
  if (head < word_shift) head += 16;  // the first word must not begin before the segment
  head = smaller(head, count);
  std::uint64_t vectors = (count - head) / 16;
  // The fifth word of the last vector must lie inside the segment too.
  if (word_shift != 0 && vectors != 0 && head + vectors * 16 + 4 > count) --vectors;
  const std::uint64_t tail = head + vectors * 16;
  for (std::uint64_t i = threadIdx.x; i < head; i += kThreads) to[i] = from[i];
  auto* out = reinterpret_cast<uint4*>(to + head);
  if (shift == 0) {
    const auto* in = reinterpret_cast<const uint4*>(from + head);
    for (std::uint64_t i = threadIdx.x; i < vectors; i += kThreads) out[i] = in[i];
  } else if (word_shift == 0) {
    const auto* in = reinterpret_cast<const std::uint32_t*>(from + head);
    for (std::uint64_t i = threadIdx.x; i < vectors; i += kThreads) {
      out[i] = make_uint4(in[4 * i], in[4 * i + 1], in[4 * i + 2], in[4 * i + 3]);
    }
  } else if (vectors != 0) {
    const Shifted source = {reinterpret_cast<const std::uint32_t*>(from + head - word_shift),
                            static_cast<unsigned>(word_shift * 8)};
    for (std::uint64_t i = threadIdx.x; i < vectors; i += kThreads) {
      out[i] = load_shifted(source, i);
    }
  }
  for (std::uint64_t i = tail + threadIdx.x; i < count; i += kThreads) to[i] = from[i];
}

__device__ void fill_zero(std::uint8_t* to, std::uint64_t count) {
  const std::uint64_t head = smaller((16 - reinterpret_cast<std::uintptr_t>(to) % 16) % 16, count);
  const std::uint64_t vectors = (count - head) / 16;
  for (std::uint64_t i = threadIdx.x; i < head; i += kThreads) to[i] = 0;
  auto* out = reinterpret_cast<uint4*>(to + head);
  for (std::uint64_t i = threadIdx.x; i < vectors; i += kThreads) out[i] = make_uint4(0, 0, 0, 0);
  for (std::uint64_t i = head + vectors * 16 + threadIdx.x; i < count; i += kThreads) to[i] = 0;
}

// blockIdx.y: the segment; blockIdx.x and on by gridDim.x: its parts.
__global__ void __launch_bounds__(kThreads) segments_kernel(const __grid_constant__ Batch batch) {
  const Segment& segment = batch.segments[blockIdx.y];
  const auto* from = static_cast<const std::uint8_t*>(segment.from);
  auto* to = static_cast<std::uint8_t*>(segment.to);
  for (std::uint64_t at = blockIdx.x * kBlockBytes; at < segment.bytes;
       at += gridDim.x * kBlockBytes) {
    copy(from + at, to + at, smaller(kBlockBytes, segment.bytes - at));
  }
  for (std::uint64_t at = blockIdx.x * kBlockBytes; at < segment.zeros;
       at += gridDim.x * kBlockBytes) {
    fill_zero(to + segment.bytes + at, smaller(kBlockBytes, segment.zeros - at));
  }
}

}  // namespace

cudaError_t copy_segments(std::span<const Segment> segments, cudaStream_t stream) {
  constexpr std::uint64_t kBlocksMax = 4096;
  Batch batch;
  unsigned count = 0;
  std::uint64_t longest = 0;
  const auto flush = [&] {
    if (count == 0) return;
    const std::uint64_t blocks = std::min((longest + kBlockBytes - 1) / kBlockBytes, kBlocksMax);
    segments_kernel<<<dim3(static_cast<unsigned>(blocks), count), kThreads, 0, stream>>>(batch);
    count = 0;
    longest = 0;
  };
  for (const Segment& segment : segments) {
    if (segment.bytes == 0 && segment.zeros == 0) continue;
    if (segment.to == nullptr || (segment.bytes != 0 && segment.from == nullptr)) {
      return cudaErrorInvalidValue;
    }
    batch.segments[count++] = segment;
    longest = std::max({longest, segment.bytes, segment.zeros});
    if (count == kSegmentsMax) flush();
  }
  flush();
  return cudaGetLastError();
}

}  // namespace shardfuzz::kernels
