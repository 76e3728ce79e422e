#include "harness/native/output_compare.h"

#include <cstring>
#include <vector>

#include "harness/native/fsdp_param.h"
#include "harness/native/numbers.h"
#include "harness/native/tensors.h"
#include "harness/real/fp8/matmul.h"
#include "harness/real/fp8/recipe.h"

namespace shardfuzz::native {
namespace {

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.numel() != b.numel()) return false;
  return a.numel() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

// Each row of a matrix of rows of `steps` elements, with a scale of its own.
struct Rows {
  std::vector<std::uint8_t> bytes;
  std::vector<float> reciprocals;
};

Rows quantized_rows(const at::Tensor& matrix) {
  const std::int64_t steps = matrix.size(-1), slots = matrix.numel() / steps;
  Rows result{.bytes = std::vector<std::uint8_t>(static_cast<std::size_t>(matrix.numel())),
              .reciprocals = std::vector<float>(static_cast<std::size_t>(slots))};
  const bool is_float = matrix.scalar_type() == c10::ScalarType::Float;
  fp8::quantize({.data = matrix.const_data_ptr(),
                 .element = is_float ? fp8::Element::kFloat32 : fp8::Element::kBfloat16,
                 .slot_stride = steps,
                 .step_stride = 1},
                {.bytes = result.bytes.data(), .slot_stride = steps, .step_stride = 1},
                {.slots = slots, .steps = steps}, fp8::ScaleRounding::kPowerOfTwo,
                result.reciprocals.data());
  for (float& scale : result.reciprocals) scale = 1.0F / scale;
  return result;
}

// torchao's _Float8GroupedMM.forward: x by rows, the weight by the rows of its last dimension.
std::vector<std::uint16_t> fp8_product(const Case& c, const GroupSpec& group,
                                       const ParamSpec& param, const LossPlace& place,
                                       const at::Tensor& weight) {
  const at::Tensor x = input_of(c, group, param, place);
  const std::int64_t columns = param.shape[1], depth = param.shape[2];
  std::vector<std::uint16_t> output(static_cast<std::size_t>(x.size(0) * columns));
  const Rows left = quantized_rows(x), right = quantized_rows(weight);
  std::int64_t row = 0, expert = 0;
  for (const std::int64_t count : expert_rows(c, param, place.rank)) {
    fp8::multiply({.bytes = left.bytes.data() + row * depth,
                   .stride = depth,
                   .scales = left.reciprocals.data() + row},
                  {.bytes = right.bytes.data() + expert * columns * depth,
                   .stride = depth,
                   .scales = right.reciprocals.data() + expert * columns},
                  {.rows = count, .columns = columns, .depth = depth},
                  {.bf16 = output.data() + row * columns, .row_stride = columns});
    row += count;
    ++expert;
  }
  return output;
}

// x * w in the dtype that torch promotes to, cast to what the modules around it return.
at::Tensor product(const Case& c, const GroupSpec& group, const ParamSpec& param,
                   const LossPlace& place, const at::Tensor& weight) {
  const at::Tensor x = input_of(c, group, param, place);
  const c10::ScalarType dtype =
      x.scalar_type() == weight.scalar_type() ? x.scalar_type() : c10::ScalarType::Float;
  at::Tensor y = empty(weight.sizes(), c10::ScalarType::Float);
  auto* to = static_cast<float*>(y.data_ptr());
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    to[i] = static_cast<float>(value_at(x.const_data_ptr(), x.scalar_type(), i) *
                               value_at(weight.const_data_ptr(), weight.scalar_type(), i));
  }
  y = to_dtype(y, dtype);
  const auto& own = group.mixed_precision.output_dtype;
  const auto& roots = c.groups[0].mixed_precision.output_dtype;
  for (const auto& output : {own, roots}) {
    if (output) y = to_dtype(y, scalar_type_of(*output));
  }
  return y;
}

}  // namespace

bool same_output(const Case& c, const GroupSpec& group, const ParamSpec& param,
                 const LossPlace& place, const at::Tensor& used, const at::Tensor& plain) {
  if (same_bytes(used, plain)) return true;
  if (used.sizes() != plain.sizes()) return false;
  if (param.call == CallPath::kMul) {
    return same_bytes(product(c, group, param, place, used),
                      product(c, group, param, place, plain));
  }
  if (is_fp8_product(param)) {
    return fp8_product(c, group, param, place, used) == fp8_product(c, group, param, place, plain);
  }
  return false;
}

}  // namespace shardfuzz::native
