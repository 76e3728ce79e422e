// The kernels for ctypes: plain pointers and integers, one function a kernel, 0 or a cudaError_t.
// Element: 0 float32, 1 bfloat16. device_kernels.py calls them; layouts and units stand in the
// headers of the kernels.
#include <cuda_runtime_api.h>

#include <vector>

#include "kernels/digest.h"
#include "kernels/grouped_gemm.h"
#include "kernels/quantize.h"
#include "kernels/shard_copy.h"

using namespace shardfuzz;           // NOLINT: this file is the edge of the namespace
using namespace shardfuzz::kernels;  // NOLINT

namespace {

fp8::ScaleRounding rounding_of(int power_of_two) {
  return power_of_two != 0 ? fp8::ScaleRounding::kPowerOfTwo : fp8::ScaleRounding::kNone;
}

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

extern "C" {

const char* shardfuzz_error(int code) { return cudaGetErrorString(static_cast<cudaError_t>(code)); }

// sizes: slots, steps, problems; from: strides problem, slot, step; to: strides problem, slot.
int shardfuzz_quantize(const void* data, int element, unsigned char* bytes, float* scales,
                       const long long* sizes, const long long* from, const long long* to,
                       int power_of_two, void* stream) {
  return quantize({data, static_cast<fp8::Element>(element), from[1], from[2]}, {bytes, to[1], 1},
                  {sizes[0], sizes[1]}, {sizes[2], from[0], to[0]}, rounding_of(power_of_two),
                  scales, stream_of(stream));
}

// sizes: slots, steps, groups; from: strides slot, step; to: stride slot; ends: device memory.
int shardfuzz_quantize_groups(const void* data, int element, unsigned char* bytes, float* scales,
                              const int* ends, const long long* sizes, const long long* from,
                              const long long* to, int power_of_two, void* stream) {
  return quantize_groups({data, static_cast<fp8::Element>(element), from[0], from[1]},
                         {bytes, to[0], 1}, {sizes[0], sizes[1]}, {ends, sizes[2]},
                         rounding_of(power_of_two), scales, stream_of(stream));
}

// segments: count rows of source, target, bytes, zeros.
int shardfuzz_copy_segments(const unsigned long long* segments, long long count, void* stream) {
  std::vector<Segment> list;
  for (long long i = 0; i < count; ++i, segments += 4) {
    list.push_back({reinterpret_cast<const void*>(segments[0]),
                    reinterpret_cast<void*>(segments[1]), segments[2], segments[3]});
  }
  return copy_segments(list, stream_of(stream));
}

int shardfuzz_digest(const void* data, unsigned long long bytes, unsigned long long* out,
                     void* stream) {
  return digest(data, bytes, reinterpret_cast<std::uint64_t*>(out), stream_of(stream));
}

// sizes: columns, depth, groups; strides: left, right, expert, out; ends: host memory.
int shardfuzz_multiply_jagged_rows(const unsigned char* left, const float* left_scales,
                                   const unsigned char* right, const float* right_scales,
                                   unsigned short* out, const int* ends, const long long* sizes,
                                   const long long* strides, void* stream) {
  const JaggedRows matmul = {.left = {left, strides[0], left_scales},
                             .right = {right, strides[1], right_scales},
                             .expert_stride = strides[2],
                             .columns = sizes[0],
                             .depth = sizes[1],
                             .out = {out, strides[3]}};
  return multiply_products(products_of(matmul, {ends, static_cast<std::size_t>(sizes[2])}),
                           stream_of(stream));
}

// sizes: rows, columns, groups; strides: left, right, out rows, out groups; ends: host memory.
int shardfuzz_multiply_jagged_depth(const unsigned char* left, const float* left_scales,
                                    const unsigned char* right, const float* right_scales,
                                    unsigned short* out, const int* ends, const long long* sizes,
                                    const long long* strides, void* stream) {
  const JaggedDepth matmul = {.left = {left, strides[0], left_scales},
                              .right = {right, strides[1], right_scales},
                              .rows = sizes[0],
                              .columns = sizes[1],
                              .out = {out, strides[2]},
                              .group_stride = strides[3]};
  return multiply_products(products_of(matmul, {ends, static_cast<std::size_t>(sizes[2])}),
                           stream_of(stream));
}

}  // extern "C"
