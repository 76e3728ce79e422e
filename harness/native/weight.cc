#include "harness/native/weight.h"

#include <cstring>

#include "harness/base/check.h"
#include "harness/native/numbers.h"
#include "harness/native/py_error.h"

namespace shardfuzz::native {
namespace {

// The padded hook of the pack: zero rows to the size that FSDP2 gathers, filled with tags.
at::Tensor padded(const at::Tensor& data, const PreAllGatherArguments& arguments) {
  const Shape& outer = *arguments.outer_size;
  const std::int64_t counted = outer[arguments.pads_by_other_dim && outer.size() > 1 ? 1 : 0];
  const std::int64_t rows = (counted + arguments.mesh_size - 1) / arguments.mesh_size;
  Shape shape = data.sizes().vec();
  const bool same_tail = std::equal(shape.begin() + 1, shape.end(), outer.begin() + 1);
  if (shape[0] >= rows || !same_tail) return data;
  shape[0] = rows;
  at::Tensor made = empty(shape, data.scalar_type());
  auto* bytes = static_cast<char*>(made.mutable_data_ptr());
  if (data.numel() > 0) std::memcpy(bytes, data.const_data_ptr(), data.nbytes());
  write_tags(bytes + data.nbytes(), data.scalar_type(), made.numel() - data.numel());
  return made;
}

}  // namespace

std::optional<WeightKind> weight_kind(std::string_view pack, std::string_view hook) {
  if (pack == "plain") return WeightKind::kPlain;
  if (pack != "torchao_moe_fp8") return std::nullopt;
  if (hook == "shipped") return WeightKind::kShipped;
  if (hook == "one_arg") return WeightKind::kOneArgument;
  if (hook == "padded") return WeightKind::kPadded;
  return std::nullopt;
}

int hook_arguments(WeightKind kind) {
  switch (kind) {
    case WeightKind::kPlain: return 0;
    case WeightKind::kOneArgument: return 1;
    case WeightKind::kShipped:
    case WeightKind::kPadded: return 5;
  }
  SHARDFUZZ_CHECK(false, "no such weight");
}

const char* type_name(WeightKind kind) {
  switch (kind) {
    case WeightKind::kPlain: return "Tensor";
    case WeightKind::kShipped: return "Float8TrainingWeightWrapperTensor";
    case WeightKind::kOneArgument: return "OneArgument";
    case WeightKind::kPadded: return "Padded";
  }
  SHARDFUZZ_CHECK(false, "no such weight");
}

std::vector<at::Tensor> pre_all_gather(WeightKind kind, const at::Tensor& local,
                                       const PreAllGatherArguments& arguments) {
  const c10::ScalarType dtype = arguments.param_dtype.value_or(local.scalar_type());
  switch (kind) {
    case WeightKind::kOneArgument: return {local};
    case WeightKind::kShipped: return {to_dtype(local, dtype)};
    case WeightKind::kPadded: return {padded(to_dtype(local, dtype), arguments)};
    case WeightKind::kPlain: break;
  }
  SHARDFUZZ_CHECK(false, "a plain tensor has no hook");
}

at::Tensor post_all_gather(WeightKind kind, const std::vector<at::Tensor>& outputs,
                           c10::ScalarType param_dtype, const at::Tensor& out) {
  SHARDFUZZ_CHECK(outputs.size() == 1, "{} outputs for a hook that sends one", outputs.size());
  const at::Tensor& data = outputs[0];
  // The hook of June 2025 makes a new wrapper at every gather and looks at nothing.
  if (!out.defined() || kind == WeightKind::kOneArgument) return data;
  if (data.scalar_type() == param_dtype) {
    if (data.storage().data() != out.storage().data()) {
      throw PyError("AssertionError", "", "tensor.py:fsdp_post_all_gather");
    }
    return data;
  }
  if (out.scalar_type() != param_dtype) {
    throw PyError(
        "AssertionError",
        std::string("torch.") + dtype_name(out.scalar_type()) + " torch." + dtype_name(param_dtype),
        "tensor.py:fsdp_post_all_gather");
  }
  convert(out.data_ptr(), param_dtype, data.const_data_ptr(), data.scalar_type(), data.numel());
  return data;
}

}  // namespace shardfuzz::native
