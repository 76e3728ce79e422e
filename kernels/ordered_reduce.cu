#include <algorithm>

#include "kernels/ordered_reduce.cuh"

namespace shardfuzz::kernels {
namespace {

constexpr int kThreads = 256;

struct Members {
  const void* inputs[kMembersMax];
  int count;
};

template <typename Format>
__global__ void __launch_bounds__(kThreads)
    reduce_kernel(const __grid_constant__ Members members, std::int64_t count, ReduceOp op,
                  float factor, typename Format::Raw* out) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += stride) {
    out[i] = reduce_element<Format>(members.inputs, members.count, i, op, factor);
  }
}

template <typename Format>
cudaError_t launch(const Members& members, std::int64_t count, const Reduction& reduction,
                   void* out, cudaStream_t stream) {
  constexpr std::int64_t kBlocksMax = 132 * 16;
  const std::int64_t blocks = std::min((count + kThreads - 1) / kThreads, kBlocksMax);
  reduce_kernel<Format><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      members, count, reduction.op, factor_of(reduction, static_cast<std::size_t>(members.count)),
      static_cast<typename Format::Raw*>(out));
  return cudaGetLastError();
}

}  // namespace

cudaError_t ordered_reduce(std::span<const void* const> inputs, std::int64_t count,
                           const Reduction& reduction, void* out, cudaStream_t stream) {
  if (inputs.empty() || inputs.size() > kMembersMax || count < 0) return cudaErrorInvalidValue;
  if (count == 0) return cudaSuccess;
  if (out == nullptr || std::find(inputs.begin(), inputs.end(), nullptr) != inputs.end()) {
    return cudaErrorInvalidValue;
  }
  Members members;
  std::copy(inputs.begin(), inputs.end(), members.inputs);
  members.count = static_cast<int>(inputs.size());
  switch (reduction.dtype) {
    case ReduceDtype::kFloat32:
      return launch<Float32Format>(members, count, reduction, out, stream);
    case ReduceDtype::kBfloat16:
      return launch<Bfloat16Format>(members, count, reduction, out, stream);
    case ReduceDtype::kFloat16:
      return launch<Float16Format>(members, count, reduction, out, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace shardfuzz::kernels
