#include "kernels/ordered_reduce.cuh"

namespace shardfuzz::kernels {
namespace {

template <typename Format>
void reduce_as(std::span<const void* const> inputs, std::int64_t count, const Reduction& reduction,
               void* out) {
  const float factor = factor_of(reduction, inputs.size());
  auto* raw = static_cast<typename Format::Raw*>(out);
  for (std::int64_t i = 0; i < count; ++i) {
    raw[i] = reduce_element<Format>(inputs.data(), static_cast<int>(inputs.size()), i, reduction.op,
                                    factor);
  }
}

}  // namespace

void ordered_reduce_cpu(std::span<const void* const> inputs, std::int64_t count,
                        const Reduction& reduction, void* out) {
  switch (reduction.dtype) {
    case ReduceDtype::kFloat32: return reduce_as<Float32Format>(inputs, count, reduction, out);
    case ReduceDtype::kBfloat16: return reduce_as<Bfloat16Format>(inputs, count, reduction, out);
    case ReduceDtype::kFloat16: return reduce_as<Float16Format>(inputs, count, reduction, out);
  }
}

}  // namespace shardfuzz::kernels
