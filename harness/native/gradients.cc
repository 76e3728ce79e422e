#include "harness/native/gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "harness/base/check.h"
#include "harness/base/data_fill.h"
#include "harness/base/vector_clones.h"
#include "harness/native/fsdp_param.h"
#include "harness/native/tensors.h"
#include "harness/real/fp8/matmul.h"
#include "harness/real/fp8/recipe.h"

namespace shardfuzz::native {
namespace {

bool is_empty_expert(const Case& c, std::int64_t expert) {
  const auto& empty_experts = c.batch.empty_experts;
  return std::find(empty_experts.begin(), empty_experts.end(), expert) != empty_experts.end();
}

std::vector<float> filled(const Case& c, const std::string& place, std::int64_t count) {
  std::vector<float> data(static_cast<std::size_t>(count));
  fill_data(data.data(), count, c.seed, place, kInputRange, c.batch.values == DataKind::kInteger);
  return data;
}

std::string x_place(const Case& c, const GroupSpec& group, const ParamSpec& param,
                    const LossPlace& place) {
  const int data_rank = c.batch.same_on_all_ranks ? 0 : place.rank;
  return fmt::format("x/{}/{}/{}/{}.{}", data_rank, place.step, place.micro, group.name,
                     param.name);
}

// What the loss weighs an output with.
std::vector<float> loss_weights(const Case& c, const Use& use, const LossPlace& place,
                                std::int64_t count) {
  const int data_rank = c.batch.same_on_all_ranks ? 0 : place.rank;
  return filled(c, fmt::format("g/{}/{}/{}/{}", data_rank, place.step, place.micro, use.output),
                count);
}

at::Tensor tensor_from(const std::vector<float>& values, c10::IntArrayRef shape) {
  at::Tensor made = empty(shape, c10::ScalarType::Float);
  if (!values.empty()) std::memcpy(made.data_ptr(), values.data(), made.nbytes());
  return made;
}

c10::ScalarType input_dtype(const GroupSpec& group, const ParamSpec& param) {
  return scalar_type_of(group.mixed_precision.param_dtype.value_or(param.dtype));
}

// The gradient of an output as its call gets it: through the casts of the modules around it.
at::Tensor output_gradient(const Case& c, const GroupSpec& group, const at::Tensor& weights,
                           c10::ScalarType output_dtype) {
  at::Tensor gradient = weights;
  for (const auto& dtype :
       {c.groups[0].mixed_precision.output_dtype, group.mixed_precision.output_dtype}) {
    if (dtype) gradient = to_dtype(gradient, scalar_type_of(*dtype));
  }
  return to_dtype(gradient, output_dtype);
}

// gradient[n][k] += sum over the rows of g[m][n] * x[m][k]; the sums are exact.
SHARDFUZZ_VECTOR_CLONES
void add_outer_products(float* gradient, const float* g, const float* x, std::int64_t rows,
                        std::int64_t out_features, std::int64_t in_features) {
  for (std::int64_t m = 0; m < rows; ++m) {
    const float* x_row = x + m * in_features;
    for (std::int64_t n = 0; n < out_features; ++n) {
      const float factor = g[m * out_features + n];
      if (factor == 0.0F) continue;
      float* to = gradient + n * in_features;
      for (std::int64_t k = 0; k < in_features; ++k) to[k] += factor * x_row[k];
    }
  }
}

// gradient[n][k] = g[n] * x[k], with the sign of a zero.
void outer_product(float* gradient, const float* g, const float* x, std::int64_t out_features,
                   std::int64_t in_features) {
  for (std::int64_t n = 0; n < out_features; ++n) {
    for (std::int64_t k = 0; k < in_features; ++k) gradient[n * in_features + k] = g[n] * x[k];
  }
}

// x * w: rounded once in the dtype that torch promotes to.
at::Tensor product_gradient(const Case& c, const Use& use, const LossPlace& place,
                            c10::ScalarType dtype) {
  const GroupSpec& group = c.groups[use.group];
  const ParamSpec& param = group.params[use.param];
  const at::Tensor x = input_of(c, group, param, place);
  const c10::ScalarType promoted = x.scalar_type() == dtype ? dtype : c10::ScalarType::Float;
  const at::Tensor weights =
      tensor_from(loss_weights(c, use, place, x.numel()), c10::IntArrayRef(param.shape));
  const at::Tensor g =
      to_dtype(output_gradient(c, group, weights, promoted), c10::ScalarType::Float);
  const at::Tensor wide = to_dtype(x, c10::ScalarType::Float);
  const at::Tensor product = empty(param.shape, c10::ScalarType::Float);
  auto* to = static_cast<float*>(product.data_ptr());
  const auto* g_at = static_cast<const float*>(g.const_data_ptr());
  const auto* x_at = static_cast<const float*>(wide.const_data_ptr());
  for (std::int64_t i = 0; i < product.numel(); ++i) to[i] = g_at[i] * x_at[i];
  return to_dtype(to_dtype(product, promoted), dtype);
}

// One side of the fp8 weight gradient: each column of one expert's rows with a scale of its own.
struct Columns {
  std::vector<std::uint8_t> bytes;  // [columns][rows]
  std::vector<float> reciprocals;
};

Columns quantized_columns(const at::Tensor& rows, std::int64_t first, std::int64_t count) {
  const std::int64_t columns = rows.size(1);
  Columns result{.bytes = std::vector<std::uint8_t>(static_cast<std::size_t>(columns * count)),
                 .reciprocals = std::vector<float>(static_cast<std::size_t>(columns))};
  const bool is_float = rows.scalar_type() == c10::ScalarType::Float;
  const auto* data = static_cast<const char*>(rows.const_data_ptr()) +
                     first * columns * static_cast<std::int64_t>(rows.itemsize());
  fp8::quantize({.data = data,
                 .element = is_float ? fp8::Element::kFloat32 : fp8::Element::kBfloat16,
                 .slot_stride = 1,
                 .step_stride = columns},
                {.bytes = result.bytes.data(), .slot_stride = count, .step_stride = 1},
                {.slots = columns, .steps = count}, fp8::ScaleRounding::kPowerOfTwo,
                result.reciprocals.data());
  for (float& scale : result.reciprocals) scale = 1.0F / scale;
  return result;
}

// torchao's _Float8GroupedMM.backward: for each expert grad_output^T times x, both by columns.
at::Tensor fp8_gradient(const Case& c, const Use& use, const LossPlace& place,
                        c10::ScalarType dtype) {
  const GroupSpec& group = c.groups[use.group];
  const ParamSpec& param = group.params[use.param];
  const at::Tensor x = input_of(c, group, param, place);
  const std::int64_t out_features = param.shape[1], in_features = param.shape[2];
  const std::vector<std::int64_t> rows = expert_rows(c, param, place.rank);
  const at::Tensor weights =
      tensor_from(loss_weights(c, use, place, x.size(0) * out_features), {x.size(0), out_features});
  const at::Tensor g = output_gradient(c, group, weights, c10::ScalarType::BFloat16);
  const at::Tensor gradient = zeros(param.shape, c10::ScalarType::BFloat16);
  auto* to = static_cast<std::uint16_t*>(gradient.data_ptr());
  std::int64_t first = 0;
  for (const std::int64_t count : rows) {
    if (count > 0) {
      const Columns left = quantized_columns(g, first, count);
      const Columns right = quantized_columns(x, first, count);
      fp8::multiply(
          {.bytes = left.bytes.data(), .stride = count, .scales = left.reciprocals.data()},
          {.bytes = right.bytes.data(), .stride = count, .scales = right.reciprocals.data()},
          {.rows = out_features, .columns = in_features, .depth = count},
          {.bf16 = to, .row_stride = in_features});
    }
    first += count;
    to += out_features * in_features;
  }
  return to_dtype(gradient, dtype);
}

}  // namespace

std::vector<Use> uses_of(const Case& c, int rank) {
  std::vector<Use> uses;
  for (std::size_t g = 0; g < c.groups.size(); ++g) {
    const auto& unused = c.groups[g].unused_on_ranks;
    if (std::find(unused.begin(), unused.end(), rank) != unused.end()) continue;
    for (std::size_t p = 0; p < c.groups[g].params.size(); ++p) {
      uses.push_back({.group = g, .param = p, .output = static_cast<int>(uses.size())});
    }
  }
  return uses;
}

std::vector<std::int64_t> expert_rows(const Case& c, const ParamSpec& param, int rank) {
  const Batch& batch = c.batch;
  const std::int64_t factor =
      batch.tokens_by_rank.empty() ? 1 : batch.tokens_by_rank[static_cast<std::size_t>(rank)];
  const std::int64_t each = factor * batch.tokens_per_expert * batch.top_k;
  const std::int64_t experts = param.call == CallPath::kLinear ? 1 : param.shape[0];
  std::vector<std::int64_t> rows;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    const bool skips = param.call == CallPath::kGroupedMm && is_empty_expert(c, expert);
    rows.push_back(skips ? 0 : each);
  }
  return rows;
}

at::Tensor input_of(const Case& c, const GroupSpec& group, const ParamSpec& param,
                    const LossPlace& place) {
  Shape shape = param.shape;
  if (param.call != CallPath::kMul) {
    const auto rows = expert_rows(c, param, place.rank);
    shape = {std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), param.shape.back()};
  }
  const std::vector<float> values = filled(c, x_place(c, group, param, place), numel_of(shape));
  return to_dtype(tensor_from(values, shape), input_dtype(group, param));
}

bool is_fp8_product(const ParamSpec& param) {
  return param.call == CallPath::kGroupedMm && has_hooks(*weight_kind(param.pack, param.hook));
}

namespace {

at::Tensor gradient_of(const Case& c, const Use& use, const LossPlace& place,
                       c10::ScalarType dtype) {
  const ParamSpec& param = c.groups[use.group].params[use.param];
  const bool is_integer = c.batch.values == DataKind::kInteger;
  if (param.call == CallPath::kMul) return product_gradient(c, use, place, dtype);
  if (!is_integer && is_fp8_product(param)) return fp8_gradient(c, use, place, dtype);
  SHARDFUZZ_CHECK(is_integer, "a matrix product of normal data");
  const std::vector<std::int64_t> rows = expert_rows(c, param, place.rank);
  const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  const std::int64_t out_features = param.shape[param.shape.size() - 2];
  const std::int64_t in_features = param.shape.back();
  const std::vector<float> x =
      filled(c, x_place(c, c.groups[use.group], param, place), total * in_features);
  const std::vector<float> g = loss_weights(c, use, place, total * out_features);
  // A product of one row in fp32 comes from mm, which then adds nothing: zeros keep their signs.
  const bool keeps_signs =
      input_dtype(c.groups[use.group], param) == c10::ScalarType::Float &&
      (param.call == CallPath::kLinear || param.call == CallPath::kGroupedMm) && out_features > 1 &&
      in_features > 1;
  const at::Tensor sum = zeros(param.shape, c10::ScalarType::Float);
  auto* to = static_cast<float*>(sum.mutable_data_ptr());
  const float* x_at = x.data();
  const float* g_at = g.data();
  for (const std::int64_t count : rows) {
    if (count == 1 && keeps_signs) {
      outer_product(to, g_at, x_at, out_features, in_features);
    } else {
      add_outer_products(to, g_at, x_at, count, out_features, in_features);
    }
    x_at += count * in_features;
    g_at += count * out_features;
    to += out_features * in_features;
  }
  return to_dtype(sum, dtype);
}

}  // namespace

const at::Tensor& Gradients::of(const Use& use, const LossPlace& place, c10::ScalarType dtype) {
  at::Tensor& known = known_[{place.rank, place.step, place.micro, use.group, use.param, dtype}];
  if (!known.defined()) known = gradient_of(case_, use, place, dtype);
  return known;
}

}  // namespace shardfuzz::native
