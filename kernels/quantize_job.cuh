// What the three quantizer kernels share: a job as they see it, and the part of one problem.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace shardfuzz::kernels {

struct Strides {
  std::int64_t problem;
  std::int64_t slot;
  std::int64_t step;
};

struct Job {
  const void* data;
  std::uint8_t* bytes;
  float* scales;             // [problem][slot]
  const std::int32_t* ends;  // of the groups that cut the steps; null: each problem has all steps
  std::int64_t slots, steps;
  std::int64_t problems;
  Strides from, to;
  bool power_of_two;
};

template <typename Raw>
struct Part {
  const Raw* data;
  std::uint8_t* bytes;
  float* scales;
  std::int64_t steps;
};

template <typename Raw>
__device__ Part<Raw> part_of(const Job& job, std::int64_t problem) {
  std::int64_t first = 0, steps = job.steps;
  if (job.ends != nullptr) {
    const auto bounded = [&](std::int64_t end) {
      return end < 0 ? std::int64_t{0} : (end > job.steps ? job.steps : end);
    };
    first = problem == 0 ? 0 : bounded(job.ends[problem - 1]);
    steps = bounded(job.ends[problem]) - first;
    if (steps < 0) steps = 0;
  }
  return {static_cast<const Raw*>(job.data) + problem * job.from.problem + first * job.from.step,
          job.bytes + problem * job.to.problem + first * job.to.step,
          job.scales + problem * job.slots, steps};
}

inline __host__ __device__ bool aligned(const void* pointer, std::int64_t unit) {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(unit) == 0;
}

// Each launches one kernel. Rows: steps next to each other on both sides. Columns: slots next to
// each other in the source, steps in the bytes. They refuse (false) what they are not made for.
template <typename Raw>
bool launch_rows(const Job& job, cudaStream_t stream);
template <typename Raw>
bool launch_columns(const Job& job, cudaStream_t stream);

}  // namespace shardfuzz::kernels
