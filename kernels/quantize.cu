#include "kernels/quantize.h"

#include <cuda_bf16.h>

#include "kernels/quantize_job.cuh"
#include "kernels/recipe.cuh"

namespace shardfuzz::kernels {
namespace {

constexpr int kThreads = 128;

// Any strides, any alignment: a warp a slot, element by element.
template <typename Raw>
__global__ void __launch_bounds__(kThreads) any_kernel(Job job) {
  const int lane = threadIdx.x % 32;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (kThreads / 32);
  std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  for (; index < job.slots * job.problems; index += warps) {
    const std::int64_t problem = index / job.slots, slot = index % job.slots;
    const Part<Raw> part = part_of<Raw>(job, problem);
    const Raw* in = part.data + slot * job.from.slot;
    std::uint8_t* out = part.bytes + slot * job.to.slot;
    float amax = 0;
    for (std::int64_t i = lane; i < part.steps; i += 32) {
      amax = fmaxf(amax, fabsf(float_of(in[i * job.from.step])));
    }
    const float scale = encode_scale(warp_max(amax), job.power_of_two);
    for (std::int64_t i = lane; i < part.steps; i += 32) {
      const float value = float_of(in[i * job.from.step]) * scale;
      out[i * job.to.step] = static_cast<std::uint8_t>(e4m3_pair(value, value) & 0xFFU);
    }
    if (lane == 0) part.scales[slot] = scale;
  }
}

template <typename Raw>
void launch_any(const Job& job, cudaStream_t stream) {
  constexpr std::int64_t kBlocksMax = 1 << 20;
  const std::int64_t blocks = (job.slots * job.problems + kThreads / 32 - 1) / (kThreads / 32);
  any_kernel<Raw>
      <<<static_cast<unsigned>(blocks < kBlocksMax ? blocks : kBlocksMax), kThreads, 0, stream>>>(
          job);
}

template <typename Raw>
cudaError_t launch_as(const Job& job, cudaStream_t stream) {
  if (!launch_rows<Raw>(job, stream) && !launch_columns<Raw>(job, stream)) {
    (void)cudaGetLastError();  // a cluster that this GPU has no room for
    launch_any<Raw>(job, stream);
  }
  return cudaGetLastError();
}

cudaError_t run(const Job& job, fp8::Element element, cudaStream_t stream) {
  if (job.slots < 0 || job.steps < 0 || job.problems < 0 || job.problems > 65535) {
    return cudaErrorInvalidValue;
  }
  if (job.slots == 0 || job.problems == 0) return cudaSuccess;
  if (job.scales == nullptr) return cudaErrorInvalidValue;
  if (job.steps != 0 && (job.data == nullptr || job.bytes == nullptr)) return cudaErrorInvalidValue;
  return element == fp8::Element::kFloat32 ? launch_as<float>(job, stream)
                                           : launch_as<__nv_bfloat16>(job, stream);
}

}  // namespace

cudaError_t quantize(const fp8::Source& source, const fp8::Sink& sink, const fp8::Extent& extent,
                     const Problems& problems, fp8::ScaleRounding rounding, float* scales,
                     cudaStream_t stream) {
  return run({.data = source.data,
              .bytes = sink.bytes,
              .scales = scales,
              .ends = nullptr,
              .slots = extent.slots,
              .steps = extent.steps,
              .problems = problems.count,
              .from = {problems.source_stride, source.slot_stride, source.step_stride},
              .to = {problems.bytes_stride, sink.slot_stride, sink.step_stride},
              .power_of_two = rounding == fp8::ScaleRounding::kPowerOfTwo},
             source.element, stream);
}

cudaError_t quantize_groups(const fp8::Source& source, const fp8::Sink& sink,
                            const fp8::Extent& extent, const Groups& groups,
                            fp8::ScaleRounding rounding, float* scales, cudaStream_t stream) {
  if (groups.count > 0 && groups.ends == nullptr) return cudaErrorInvalidValue;
  return run({.data = source.data,
              .bytes = sink.bytes,
              .scales = scales,
              .ends = groups.ends,
              .slots = extent.slots,
              .steps = extent.steps,
              .problems = groups.count,
              .from = {0, source.slot_stride, source.step_stride},
              .to = {0, sink.slot_stride, sink.step_stride},
              .power_of_two = rounding == fp8::ScaleRounding::kPowerOfTwo},
             source.element, stream);
}

}  // namespace shardfuzz::kernels
