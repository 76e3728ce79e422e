// The reduction of a simulated reduce-scatter or all-reduce for ranks that share a GPU: members in
// member order, each step rounded to the tensors' dtype.
//
// It gives the bits of the simulated process group (harness/collective/sim_backend.cc, which uses
// ATen): every addition is done in float and rounded to the dtype before the next; kAverage
// multiplies each member by 1 / members first, as NCCL does; kPremulSum by `factor`; kMin and kMax
// give NaN if one operand is NaN. NCCL's own order is not promised: it may differ in the last bits
// where data are not integers.
// Refuses (cudaErrorInvalidValue): no member, more than kMembersMax, null pointers. In place (out
// one of the inputs) is right.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

namespace shardfuzz::kernels {

enum class ReduceDtype { kFloat32, kBfloat16, kFloat16 };
enum class ReduceOp { kSum, kAverage, kPremulSum, kMin, kMax };

struct Reduction {
  ReduceOp op = ReduceOp::kSum;
  ReduceDtype dtype = ReduceDtype::kFloat32;
  double factor = 1.0;  // of kPremulSum
};

inline constexpr int kMembersMax = 256;

// inputs: each member's part for this rank, `count` elements.
cudaError_t ordered_reduce(std::span<const void* const> inputs, std::int64_t count,
                           const Reduction& reduction, void* out, cudaStream_t stream);
void ordered_reduce_cpu(std::span<const void* const> inputs, std::int64_t count,
                        const Reduction& reduction, void* out);

}  // namespace shardfuzz::kernels
