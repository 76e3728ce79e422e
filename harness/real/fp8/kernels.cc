#include "harness/real/fp8/kernels.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <tuple>

#include "harness/real/fp8/matmul.h"
#include "harness/real/fp8/recipe.h"

namespace shardfuzz {
namespace {

using at::Tensor;
using GroupEnds = c10::SmallVector<std::int64_t, 16>;

// ---- quantizers
// ----------------------------------------------------------------------------------

fp8::Element element_of(const Tensor& tensor) {
  if (tensor.scalar_type() == at::kFloat) return fp8::Element::kFloat32;
  TORCH_CHECK(tensor.scalar_type() == at::kBFloat16,
              "fp8 quantizers take float32 or bfloat16, but got ", tensor.scalar_type());
  return fp8::Element::kBfloat16;
}

fp8::ScaleRounding rounding_of(bool to_power_of_two) {
  return to_power_of_two ? fp8::ScaleRounding::kPowerOfTwo : fp8::ScaleRounding::kNone;
}

void check_quantizer(const Tensor& tensor, std::int64_t dim, at::ScalarType output_dtype) {
  TORCH_CHECK(tensor.dim() == dim, "input tensor must be ", dim, "D, but got ", tensor.dim(), "D");
  TORCH_CHECK(output_dtype == at::kFloat8_e4m3fn,
              "the CPU fp8 quantizers write float8_e4m3fn only, not ", output_dtype);
}

Tensor empty_bytes(const Tensor& like, at::IntArrayRef sizes, at::IntArrayRef strides) {
  return at::empty_strided(sizes, strides, like.options().dtype(at::kFloat8_e4m3fn));
}

Tensor empty_scales(const Tensor& like, at::IntArrayRef sizes) {
  return at::empty(sizes, like.options().dtype(at::kFloat));
}

std::uint8_t* bytes_of(const Tensor& tensor) {
  return static_cast<std::uint8_t*>(tensor.mutable_data_ptr());
}

const std::uint8_t* input_bytes_of(const Tensor& tensor) {
  return static_cast<const std::uint8_t*>(tensor.const_data_ptr());
}

const void* offset_pointer(const Tensor& tensor, std::int64_t elements) {
  return static_cast<const char*>(tensor.const_data_ptr()) + elements * tensor.element_size();
}

// The exclusive end of each group, all within [0, limit]. An end before its start is left to the
// caller: for the quantizers it is an empty group.
GroupEnds read_group_ends(const Tensor& offsets, std::int64_t limit) {
  TORCH_CHECK(offsets.dim() == 1, "offs has to be 1D");
  TORCH_CHECK(offsets.scalar_type() == at::kInt, "Offsets have to be int32");
  const Tensor contiguous = offsets.contiguous();
  const auto* data = contiguous.const_data_ptr<std::int32_t>();
  GroupEnds ends(data, data + contiguous.numel());
  for (std::size_t group = 0; group < ends.size(); ++group) {
    TORCH_CHECK(ends[group] >= 0 && ends[group] <= limit, "group ", group, " ends at ", ends[group],
                ", outside the tensor, which has ", limit, " tokens");
  }
  return ends;
}

using Quantized = std::tuple<Tensor, Tensor>;

// (M, K) -> (M, K) row-major and (M, 1), one scale a row.
Quantized rowwise_2d(const Tensor& input, at::ScalarType output_dtype, bool to_power_of_two) {
  check_quantizer(input, 2, output_dtype);
  const std::int64_t m = input.size(0), k = input.size(1);
  Tensor bytes = at::empty({m, k}, input.options().dtype(output_dtype));
  Tensor scales = empty_scales(input, {m, 1});
  fp8::quantize({.data = input.const_data_ptr(),
                 .element = element_of(input),
                 .slot_stride = input.stride(0),
                 .step_stride = input.stride(1)},
                {.bytes = bytes_of(bytes), .slot_stride = k, .step_stride = 1},
                {.slots = m, .steps = k}, rounding_of(to_power_of_two),
                scales.mutable_data_ptr<float>());
  return {std::move(bytes), std::move(scales)};
}

// (E, K, N) -> (E, K, N) with K contiguous and (E, 1, N), one scale a column of an expert.
Quantized colwise_3d(const Tensor& input, at::ScalarType output_dtype, bool to_power_of_two) {
  check_quantizer(input, 3, output_dtype);
  const std::int64_t e = input.size(0), k = input.size(1), n = input.size(2);
  Tensor bytes = empty_bytes(input, {e, k, n}, {k * n, 1, k});
  Tensor scales = empty_scales(input, {e, 1, n});
  for (std::int64_t expert = 0; expert < e; ++expert) {
    fp8::quantize({.data = offset_pointer(input, expert * input.stride(0)),
                   .element = element_of(input),
                   .slot_stride = input.stride(2),
                   .step_stride = input.stride(1)},
                  {.bytes = bytes_of(bytes) + expert * k * n, .slot_stride = k, .step_stride = 1},
                  {.slots = n, .steps = k}, rounding_of(to_power_of_two),
                  scales.mutable_data_ptr<float>() + expert * n);
  }
  return {std::move(bytes), std::move(scales)};
}

// (E, K, N) -> (E, N, K) with N contiguous and (E, K), one scale a row of the input. N = 0 leaves
// the scales at infinity, from where torchao's atomic minimum starts.
Quantized rowwise_transpose_rhs(const Tensor& input, at::ScalarType output_dtype,
                                bool to_power_of_two) {
  check_quantizer(input, 3, output_dtype);
  const std::int64_t e = input.size(0), k = input.size(1), n = input.size(2);
  Tensor bytes = empty_bytes(input, {e, n, k}, {n * k, 1, n});
  Tensor scales = empty_scales(input, {e, k});
  if (n == 0) scales.fill_(std::numeric_limits<float>::infinity());
  for (std::int64_t expert = 0; expert < e && n > 0; ++expert) {
    fp8::quantize({.data = offset_pointer(input, expert * input.stride(0)),
                   .element = element_of(input),
                   .slot_stride = input.stride(1),
                   .step_stride = input.stride(2)},
                  {.bytes = bytes_of(bytes) + expert * k * n, .slot_stride = n, .step_stride = 1},
                  {.slots = k, .steps = n}, rounding_of(to_power_of_two),
                  scales.mutable_data_ptr<float>() + expert * k);
  }
  return {std::move(bytes), std::move(scales)};
}

// (M, N) with groups of rows -> (M, N) with M contiguous and flat (groups * N), group-major.
Quantized colwise_of_groups(const Tensor& input, const GroupEnds& ends, bool to_power_of_two) {
  const std::int64_t m = input.size(0), n = input.size(1);
  Tensor bytes = empty_bytes(input, {m, n}, {1, m});
  Tensor scales = empty_scales(input, {n * static_cast<std::int64_t>(ends.size())});
  float* group_scales = scales.mutable_data_ptr<float>();
  std::int64_t start = 0;
  for (const std::int64_t end : ends) {
    fp8::quantize({.data = offset_pointer(input, start * input.stride(0)),
                   .element = element_of(input),
                   .slot_stride = input.stride(1),
                   .step_stride = input.stride(0)},
                  {.bytes = bytes_of(bytes) + start, .slot_stride = m, .step_stride = 1},
                  {.slots = n, .steps = std::max<std::int64_t>(end - start, 0)},
                  rounding_of(to_power_of_two), group_scales);
    group_scales += n;
    start = end;
  }
  return {std::move(bytes), std::move(scales)};
}

Quantized per_group_colwise(const Tensor& input, const Tensor& offsets, at::ScalarType output_dtype,
                            bool to_power_of_two) {
  check_quantizer(input, 2, output_dtype);
  return colwise_of_groups(input, read_group_ends(offsets, input.size(0)), to_power_of_two);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> per_group_colwise_dual(const Tensor& first,
                                                                  const Tensor& second,
                                                                  const Tensor& offsets,
                                                                  at::ScalarType output_dtype,
                                                                  bool to_power_of_two) {
  check_quantizer(first, 2, output_dtype);
  check_quantizer(second, 2, output_dtype);
  TORCH_CHECK(first.size(0) == second.size(0),
              "hp_tensor_1 and hp_tensor_2 must have the same row count");
  const GroupEnds ends = read_group_ends(offsets, first.size(0));
  return std::tuple_cat(colwise_of_groups(first, ends, to_power_of_two),
                        colwise_of_groups(second, ends, to_power_of_two));
}

// (M, K) with groups of columns -> (M, K) row-major and flat (groups * M), group-major.
Quantized per_group_rowwise(const Tensor& input, const Tensor& offsets, at::ScalarType output_dtype,
                            bool to_power_of_two) {
  check_quantizer(input, 2, output_dtype);
  const std::int64_t m = input.size(0), k = input.size(1);
  const GroupEnds ends = read_group_ends(offsets, k);
  Tensor bytes = at::empty({m, k}, input.options().dtype(output_dtype));
  Tensor scales = empty_scales(input, {m * static_cast<std::int64_t>(ends.size())});
  float* group_scales = scales.mutable_data_ptr<float>();
  std::int64_t start = 0;
  for (const std::int64_t end : ends) {
    fp8::quantize({.data = offset_pointer(input, start * input.stride(1)),
                   .element = element_of(input),
                   .slot_stride = input.stride(0),
                   .step_stride = input.stride(1)},
                  {.bytes = bytes_of(bytes) + start, .slot_stride = k, .step_stride = 1},
                  {.slots = m, .steps = std::max<std::int64_t>(end - start, 0)},
                  rounding_of(to_power_of_two), group_scales);
    group_scales += m;
    start = end;
  }
  return {std::move(bytes), std::move(scales)};
}

// ---- grouped matmul: what ATen's CUDA function checks, on the host and on the device
// --------------

constexpr std::int64_t kAlignmentBytes = 16;
constexpr std::int64_t kGroupsMax = 1024;

bool is_transposed(const Tensor& matrix) {
  TORCH_CHECK_VALUE(matrix.dim() == 2 || matrix.dim() == 3, "matrix has to be 2 or 3d");
  const std::int64_t alignment = kAlignmentBytes / matrix.element_size();
  const std::int64_t row_stride = matrix.stride(-2), column_stride = matrix.stride(-1);
  TORCH_CHECK(reinterpret_cast<std::uintptr_t>(matrix.const_data_ptr()) % kAlignmentBytes == 0,
              "expected data_ptr to be aligned to 16 bytes");
  if (row_stride == 1 && column_stride >= std::max<std::int64_t>(1, matrix.size(-2))) {
    TORCH_CHECK(column_stride % alignment == 0, "strides should be multiple of 16 bytes");
    return true;
  }
  TORCH_CHECK(column_stride == 1 && row_stride >= std::max<std::int64_t>(1, matrix.size(-1)),
              "Invalid strides/sizes, got ", matrix.strides(), " for strides and ", matrix.sizes(),
              " for sizes");
  TORCH_CHECK(row_stride % alignment == 0, "strides should be multiple of 16 bytes");
  return false;
}

void check_matrices(const Tensor& a, const Tensor& b) {
  TORCH_CHECK_VALUE(!is_transposed(a), "Expected mat1 to not be transposed");
  TORCH_CHECK_VALUE(is_transposed(b), "Expected mat2 to be transposed");
  if (a.dim() == 3 || b.dim() == 3) {
    TORCH_CHECK_VALUE(a.size(-1) == b.size(-2),
                      "contraction dimension of mat_a and mat_b must match");
  }
  TORCH_CHECK_VALUE(
      a.size(-1) % 16 == 0,
      "Expected trailing dimension of mat_a to be divisible by 16 but got mat1 shape: (", a.sizes(),
      ").");
  TORCH_CHECK_VALUE(b.size(-2) % 16 == 0 && b.size(-1) % 16 == 0,
                    "Expected mat_b shape to be divisible by 16 but got mat_b shape: (", b.sizes(),
                    ").");
}

struct ScaleRule {
  std::int64_t dim;  // the outer dim of the operand's matrices: 0 of the left, 1 of the right
  std::int64_t arg;  // as ATen counts in its messages
  std::int64_t multiplier;  // groups in wgrad, else 1
};

void check_scale(const Tensor& matrix, const Tensor& scale, const ScaleRule& rule) {
  if (matrix.dim() == 2) {
    TORCH_CHECK(scale.dim() == 1, "scale must be a 1D tensor, but got ", scale.dim(), "D, arg ",
                rule.arg);
    TORCH_CHECK(scale.is_contiguous(), "scale must be contiguous for arg ", rule.arg);
    TORCH_CHECK(scale.size(0) == matrix.size(rule.dim) * rule.multiplier,
                "scale must have the same length as mat for arg ", rule.arg);
    return;
  }
  TORCH_CHECK(scale.dim() == 2, "scale must be a 2D tensor, but got ", scale.dim(), "D for arg ",
              rule.arg);
  TORCH_CHECK(scale.stride(1) == 1, "scale must be contiguous in the last dimension for arg ",
              rule.arg);
  TORCH_CHECK(scale.size(0) == matrix.size(0),
              "scale must have the same batch dimension as mat for arg ", rule.arg);
  TORCH_CHECK(scale.size(1) == matrix.size(1 + rule.dim),
              "scale must have the same first dimension as mat for arg ", rule.arg);
}

void check_scales(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                  const std::optional<Tensor>& offs) {
  const bool float_scales =
      scale_a.scalar_type() == at::kFloat && scale_b.scalar_type() == at::kFloat;
  TORCH_CHECK_NOT_IMPLEMENTED(
      float_scales || scale_a.scalar_type() != at::kFloat8_e8m0fnu ||
          scale_b.scalar_type() != at::kFloat8_e8m0fnu,
      "mxfp8 grouped gemm has no CPU kernel here: only rowwise float32 scales");
  TORCH_CHECK_VALUE(float_scales,
                    "For FP8 tensorwise and rowwise, both scales must both be float32 tensors. For "
                    "MXFP8, scales must both be float8_e8m0fnu tensors.");
  const std::int64_t multiplier = a.dim() == 2 && b.dim() == 2 ? offs->size(0) : 1;
  check_scale(a, scale_a, {.dim = 0, .arg = 0, .multiplier = multiplier});
  check_scale(b, scale_b, {.dim = 1, .arg = 1, .multiplier = multiplier});
}

Tensor make_output(const Tensor& a, const Tensor& b, const std::optional<Tensor>& offs) {
  const bool a_is_2d = a.dim() == 2, b_is_2d = b.dim() == 2;
  const std::int64_t rows = a.size(-2), columns = b.size(-1);
  const std::int64_t padded = (columns + 7) / 8 * 8;  // 16 bytes of bf16
  const auto options = a.options().dtype(at::kBFloat16);
  if (a_is_2d != b_is_2d) {
    TORCH_CHECK(offs->size(0) == (a_is_2d ? b : a).size(0), "matrix batch sizes have to match");
    return at::empty_strided({rows, columns}, {padded, 1}, options);
  }
  TORCH_CHECK(a_is_2d || a.size(0) == b.size(0), "batched dimension has to match");
  const std::int64_t groups = a_is_2d ? offs->size(0) : a.size(0);
  return at::empty_strided({groups, rows, columns}, {rows * padded, padded, 1}, options);
}

// Group sizes, with the device's asserts: no negative size; along a contiguous jagged dim every
// group but the last (the device skips it) a multiple of 16 bytes.
GroupEnds read_group_sizes(const Tensor& offs, std::int64_t limit, std::int64_t size_unit) {
  GroupEnds sizes = read_group_ends(offs, limit);
  std::int64_t start = 0;
  for (std::size_t group = 0; group < sizes.size(); ++group) {
    const std::int64_t end = sizes[group];
    TORCH_CHECK(end >= start, "expected offsets to be greater or equal 0, but group ", group,
                " ends at ", end, ", before its start ", start);
    sizes[group] = end - start;
    TORCH_CHECK(
        group + 1 == sizes.size() || sizes[group] % size_unit == 0,
        "expected input tensor dynamic dimension byte size to be non-negative multiple of 16,"
        " but group ",
        group, " has ", sizes[group], " tokens");
    start = end;
  }
  return sizes;
}

// ---- grouped matmul: the four kinds
// ----------------------------------------------------------------

// One tensor of matrices or one jagged matrix, walked group by group.
struct Walk {
  const std::uint8_t* bytes;
  const float* scales;
  std::int64_t stride;
  fp8::Operand operand() const { return {.bytes = bytes, .stride = stride, .scales = scales}; }
};

struct Product {
  Walk a, b;
  std::uint16_t* out;
  fp8::ProductShape shape;
  std::int64_t row_stride;
  void run() const {
    fp8::multiply(a.operand(), b.operand(), shape, {.bf16 = out, .row_stride = row_stride});
  }
};

// Both jagged: the tokens are the contraction; each group fills a matrix of its own.
void multiply_wgrad(Product product, const GroupEnds& sizes, std::int64_t out_stride) {
  for (const std::int64_t size : sizes) {
    product.shape.depth = size;
    product.run();
    product.a.bytes += size;
    product.b.bytes += size;
    product.a.scales += product.shape.rows;
    product.b.scales += product.shape.columns;
    product.out += out_stride;
  }
}

// The left one jagged in its rows: output rows at and beyond the last group end are not written.
void multiply_jagged_rows(Product product, const GroupEnds& sizes, const Tensor& b,
                          const Tensor& scale_b) {
  for (const std::int64_t size : sizes) {
    product.shape.rows = size;
    product.run();
    product.a.bytes += size * product.a.stride;
    product.a.scales += size;
    product.b.bytes += b.stride(0);
    product.b.scales += scale_b.stride(0);
    product.out += size * product.row_stride;
  }
}

void multiply_jagged_columns(Product product, const GroupEnds& sizes, const Tensor& a,
                             const Tensor& scale_a) {
  for (const std::int64_t size : sizes) {
    product.shape.columns = size;
    product.run();
    product.a.bytes += a.stride(0);
    product.a.scales += scale_a.stride(0);
    product.b.bytes += size * product.b.stride;
    product.b.scales += size;
    product.out += size;
  }
}

void multiply_batch(Product product, const Tensor& out, const std::array<const Tensor*, 4>& of) {
  for (std::int64_t i = 0; i < out.size(0); ++i) {
    product.run();
    product.a.bytes += of[0]->stride(0);
    product.b.bytes += of[1]->stride(0);
    product.a.scales += of[2]->stride(0);
    product.b.scales += of[3]->stride(0);
    product.out += out.stride(0);
  }
}

Tensor scaled_grouped_mm(const Tensor& a, const Tensor& b, const Tensor& scale_a,
                         const Tensor& scale_b, const std::optional<Tensor>& offs,
                         const std::optional<Tensor>& bias,
                         const std::optional<Tensor>& scale_result,
                         std::optional<at::ScalarType> out_dtype, bool /*use_fast_accum*/) {
  check_matrices(a, b);
  const bool a_is_2d = a.dim() == 2, b_is_2d = b.dim() == 2;
  TORCH_CHECK_VALUE(!bias.has_value(), "Bias not supported yet");
  TORCH_CHECK_VALUE(!scale_result.has_value(), "Scale result not supported yet");
  TORCH_CHECK_VALUE(offs.has_value() == (a_is_2d || b_is_2d),
                    "Have to provide offsets if there is a 2d matrix");
  if (offs.has_value()) {
    TORCH_CHECK_VALUE(offs->dim() == 1, "offs has to be 1D");
    TORCH_CHECK_VALUE(offs->scalar_type() == at::kInt, "Offsets have to be int32");
  }
  check_scales(a, b, scale_a, scale_b, offs);
  TORCH_CHECK_VALUE(out_dtype.value_or(at::kBFloat16) == at::kBFloat16,
                    "Only bf16 high precision output types are supported for grouped gemm");
  Tensor out = make_output(a, b, offs);
  for (const Tensor* matrix : {&a, &b}) {
    TORCH_CHECK_VALUE(matrix->scalar_type() == at::kFloat8_e4m3fn,
                      "Expected mat_a to be Float8_e4m3 matrix got ", matrix->scalar_type());
  }
  TORCH_CHECK((offs.has_value() ? offs->size(0) : a.size(0)) < kGroupsMax,
              "Can't process more than 1024 groups");

  const Product product{.a = {input_bytes_of(a), scale_a.const_data_ptr<float>(), a.stride(-2)},
                        .b = {input_bytes_of(b), scale_b.const_data_ptr<float>(), b.stride(-1)},
                        .out = static_cast<std::uint16_t*>(out.mutable_data_ptr()),
                        .shape = {.rows = a.size(-2), .columns = b.size(-1), .depth = a.size(-1)},
                        .row_stride = out.stride(-2)};
  if (a_is_2d && b_is_2d) {
    // ATen does not compare the contraction dims of two 2D matrices: the offsets rule them.
    const std::int64_t tokens = std::min(a.size(1), b.size(0));
    multiply_wgrad(product, read_group_sizes(*offs, tokens, 16), out.stride(0));
  } else if (a_is_2d) {
    multiply_jagged_rows(product, read_group_sizes(*offs, a.size(0), 1), b, scale_b);
  } else if (b_is_2d) {
    multiply_jagged_columns(product, read_group_sizes(*offs, b.size(1), 8), a, scale_a);
  } else {
    multiply_batch(product, out, {&a, &b, &scale_a, &scale_b});
  }
  return out;
}

// ---- registration
// ----------------------------------------------------------------------------------

constexpr std::array kOperators = {
    "triton_fp8_rowwise_2d_scale_and_cast", "triton_fp8_colwise_3d_scale_and_cast",
    "triton_fp8_rowwise_transpose_rhs",     "triton_fp8_per_group_colwise_scales_dual",
    "triton_fp8_per_group_colwise_scales",  "triton_fp8_per_group_rowwise_scales",
};

}  // namespace

TORCH_LIBRARY_IMPL(torchao, CPU, library) {
  library.impl("triton_fp8_rowwise_2d_scale_and_cast", &rowwise_2d);
  library.impl("triton_fp8_colwise_3d_scale_and_cast", &colwise_3d);
  library.impl("triton_fp8_rowwise_transpose_rhs", &rowwise_transpose_rhs);
  library.impl("triton_fp8_per_group_colwise_scales_dual", &per_group_colwise_dual);
  library.impl("triton_fp8_per_group_colwise_scales", &per_group_colwise);
  library.impl("triton_fp8_per_group_rowwise_scales", &per_group_rowwise);
}

TORCH_LIBRARY_IMPL(torchao, AutogradCPU, library) {
  for (const char* name : kOperators) library.impl(name, torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, CPU, library) { library.impl("_scaled_grouped_mm", &scaled_grouped_mm); }

std::vector<std::string> fp8_kernels_without_schema() {
  std::vector<std::string> missing;
  for (const char* name : kOperators) {
    const std::string full_name = std::string("torchao::") + name;
    if (!c10::Dispatcher::singleton().findSchema({full_name, ""})) missing.push_back(full_name);
  }
  return missing;
}

}  // namespace shardfuzz
