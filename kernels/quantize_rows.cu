// Steps next to each other: a slot is read once into the registers of a warp or of a block.
#include <cuda_bf16.h>

#include "kernels/quantize_job.cuh"
#include "kernels/recipe.cuh"

namespace shardfuzz::kernels {
namespace {

// The greatest of the threads of one slot; kThreads is 32 or the whole block.
template <int kThreads>
__device__ float slot_max(float value) {
  value = warp_max(value);
  if constexpr (kThreads > 32) {
    __shared__ float of_warps[kThreads / 32];
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warps[0];
#pragma unroll
    for (int warp = 1; warp < kThreads / 32; ++warp) value = fmaxf(value, of_warps[warp]);
  }
  return value;
}

template <typename Raw>
__device__ void store(std::uint8_t* bytes, const uint4& vector, float scale) {
  const auto value = [&](int i) { return Vector<Raw>::element(vector, i) * scale; };
  const std::uint32_t low = e4m3_quad(value(0), value(1), value(2), value(3));
  if constexpr (Vector<Raw>::kSize == 8) {
    const std::uint32_t high = e4m3_quad(value(4), value(5), value(6), value(7));
    __stcs(reinterpret_cast<uint2*>(bytes), make_uint2(low, high));
  } else {
    __stcs(reinterpret_cast<unsigned int*>(bytes), low);
  }
}

// kThreads a slot, each with up to kVectors vectors of it, kBlock threads a block.
template <typename Raw, int kThreads, int kBlock, int kVectors>
__global__ void __launch_bounds__(kBlock) rows_kernel(Job job) {
  constexpr int kSize = Vector<Raw>::kSize;
  const int thread = threadIdx.x % kThreads;
  const std::int64_t index =
      static_cast<std::int64_t>(blockIdx.x) * (kBlock / kThreads) + threadIdx.x / kThreads;
  if (index >= job.slots * job.problems) return;  // a whole warp, or the whole block
  const std::int64_t problem = index / job.slots, slot = index % job.slots;
  const Part<Raw> part = part_of<Raw>(job, problem);
  const auto* in = reinterpret_cast<const uint4*>(part.data + slot * job.from.slot);
  std::uint8_t* out = part.bytes + slot * job.to.slot;
  const auto vectors = static_cast<int>(part.steps / kSize);

  uint4 held[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int at = thread + i * kThreads;
    held[i] = at < vectors ? __ldcs(in + at) : make_uint4(0, 0, 0, 0);
  }
  Maxima<Raw> maxima;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) maxima.add(held[i]);
  float amax = 0;
#pragma unroll
  for (int i = 0; i < kSize; ++i) amax = fmaxf(amax, maxima.element(i));
  const float scale = encode_scale(slot_max<kThreads>(amax), job.power_of_two);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int at = thread + i * kThreads;
    if (at < vectors) store<Raw>(out + std::int64_t{at} * kSize, held[i], scale);
  }
  if (thread == 0) part.scales[slot] = scale;
}

template <typename Raw, int kThreads, int kBlock, int kVectors>
void launch(const Job& job, cudaStream_t stream) {
  const std::int64_t slots_a_block = kBlock / kThreads;
  const std::int64_t blocks = (job.slots * job.problems + slots_a_block - 1) / slots_a_block;
  rows_kernel<Raw, kThreads, kBlock, kVectors>
      <<<static_cast<unsigned>(blocks), kBlock, 0, stream>>>(job);
}

template <typename Raw>
bool vectors_fit(const Job& job) {
  constexpr int kSize = Vector<Raw>::kSize;
  return job.steps % kSize == 0 && job.from.slot % kSize == 0 && job.from.problem % kSize == 0 &&
         job.to.slot % kSize == 0 && job.to.problem % kSize == 0 && aligned(job.data, 16) &&
         aligned(job.bytes, kSize);
}

}  // namespace

template <typename Raw>
bool launch_rows(const Job& job, cudaStream_t stream) {
  // Groups cut the steps anywhere: they are not this kernel's.
  if (job.ends != nullptr || job.from.step != 1 || job.to.step != 1) return false;
  if (!vectors_fit<Raw>(job) || job.slots * job.problems > 0x7FFFFFFF) return false;
  const std::int64_t vectors = job.steps / Vector<Raw>::kSize;
  if (vectors <= 32) {
    launch<Raw, 32, 128, 1>(job, stream);
  } else if (vectors <= 64) {
    launch<Raw, 32, 128, 2>(job, stream);
  } else if (vectors <= 128) {
    launch<Raw, 32, 128, 4>(job, stream);
  } else if (vectors <= 256) {
    launch<Raw, 128, 128, 2>(job, stream);
  } else if (vectors <= 512) {
    launch<Raw, 128, 128, 4>(job, stream);
  } else if (vectors <= 640) {
    launch<Raw, 128, 128, 5>(job, stream);
  } else if (vectors <= 1024) {
    launch<Raw, 256, 256, 4>(job, stream);
  } else if (vectors <= 2048) {
    launch<Raw, 512, 512, 4>(job, stream);
  } else if (vectors <= 4096) {
    launch<Raw, 512, 512, 8>(job, stream);
  } else {
    return false;
  }
  return true;
}

template bool launch_rows<float>(const Job& job, cudaStream_t stream);
template bool launch_rows<__nv_bfloat16>(const Job& job, cudaStream_t stream);

}  // namespace shardfuzz::kernels
