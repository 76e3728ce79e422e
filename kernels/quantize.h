// The quantizers of the fp8 MoE recipe on a GPU: scales and e4m3fn bytes, bit for bit those of the
// CPU twin (harness/real/fp8/recipe.h, which holds the recipe).
//
// What torchao's four operators need, as one rule on strides (in elements): a slot is what shares
// one scale, its steps run along the contraction axis, and the bytes of a slot lie next to each
// other in the output.
//
//   operator of torchao 0.18            problems  slots  steps  source strides       bytes strides
//                                                               (problem,slot,step)  (problem,slot)
//   fp8_rowwise_2d (M, K)                      1      M      K  -, K, 1              -, K
//   fp8_colwise_3d (E, K, N), K next           E      N      K  K*N, K, 1            K*N, K
//   the same, N next                           E      N      K  K*N, 1, N            K*N, K
//   fp8_rowwise_transpose_rhs, K next          E      K      N  K*N, 1, K            K*N, N
//   fp8_per_group_colwise (M, N)          groups      N      M  groups cut steps     -, M
//
// Guarantees: the same bytes whatever the launch (a maximum has no order); any strides and
// alignment are right, and fast where one of the two source strides is 1 and everything is aligned
// to 16 bytes; nothing outside the slots' bytes and scales is written; an empty slot or group has
// scale 2^48 (kPowerOfTwo) and no bytes. Memory traffic: 3 bytes an element (bf16) where a slot
// stays on the chip, which it does up to 32768 steps (steps next to each other) or 8192 (slots
// next to each other); beyond that the source is read twice.
// Refuses (cudaErrorInvalidValue): negative extents, null pointers of what is not empty, more than
// 65535 problems. Asynchronous: what a kernel does wrong shows at a later call on the stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "harness/real/fp8/recipe.h"

namespace shardfuzz::kernels {

// Independent problems of one extent; strides in elements from one to the next.
struct Problems {
  std::int64_t count = 1;
  std::int64_t source_stride = 0;
  std::int64_t bytes_stride = 0;
};

// scales: [problem][slot].
cudaError_t quantize(const fp8::Source& source, const fp8::Sink& sink, const fp8::Extent& extent,
                     const Problems& problems, fp8::ScaleRounding rounding, float* scales,
                     cudaStream_t stream);
void quantize_cpu(const fp8::Source& source, const fp8::Sink& sink, const fp8::Extent& extent,
                  const Problems& problems, fp8::ScaleRounding rounding, float* scales);

// The exclusive end of each group along the steps, as `offs` of a grouped matmul. An end before its
// start is an empty group and an end beyond the steps counts as their number, so that no bad value
// reads outside the tensor. On the GPU `ends` is device memory, which the host never reads.
struct Groups {
  const std::int32_t* ends;
  std::int64_t count;
};

// scales: [group][slot]. Steps at and beyond the last end are not written.
cudaError_t quantize_groups(const fp8::Source& source, const fp8::Sink& sink,
                            const fp8::Extent& extent, const Groups& groups,
                            fp8::ScaleRounding rounding, float* scales, cudaStream_t stream);
void quantize_groups_cpu(const fp8::Source& source, const fp8::Sink& sink,
                         const fp8::Extent& extent, const Groups& groups,
                         fp8::ScaleRounding rounding, float* scales);

}  // namespace shardfuzz::kernels
