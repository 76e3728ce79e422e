// WeightKind: the tensor subclasses of the native target, by their FSDP hooks.
//
// kPlain is torch.Tensor, without hooks. The others follow
// torchao.prototype.moe_training.tensor.Float8TrainingWeightWrapperTensor (torchao 0.18) in the
// versions of the pack torchao_moe_fp8 (harness/real/packs/torchao_moe_fp8.py), whose classes wrap
// one tensor, `_data`; here the wrapped tensor stands for the wrapper, and its kind goes with it.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/native/tensors.h"

namespace shardfuzz::native {

enum class WeightKind { kPlain, kShipped, kOneArgument, kPadded };

// Empty where the native target has no such pack or hook.
std::optional<WeightKind> weight_kind(std::string_view pack, std::string_view hook);
[[nodiscard]] inline bool has_hooks(WeightKind kind) { return kind != WeightKind::kPlain; }
// Arguments of fsdp_pre_all_gather besides self; 0 for no hook.
int hook_arguments(WeightKind kind);
// Name of the Python class.
const char* type_name(WeightKind kind);

struct PreAllGatherArguments {
  int mesh_size = 1;  // of the shard mesh
  const Shape* outer_size = nullptr;
  std::optional<c10::ScalarType> param_dtype;  // MixedPrecisionPolicy's
  bool pads_by_other_dim = false;              // Bug::kPadByOtherDim
};

// The hooks. Pre: what this rank sends. Post: the gathered data as one tensor, which becomes the
// unsharded parameter, and what FSDP2 is to free with it; `out` is the tensor of the last gather
// (undefined at the first), as the hook's own argument. Raises PyError as the Python hooks do.
std::vector<at::Tensor> pre_all_gather(WeightKind kind, const at::Tensor& local,
                                       const PreAllGatherArguments& arguments);
at::Tensor post_all_gather(WeightKind kind, const std::vector<at::Tensor>& outputs,
                           c10::ScalarType param_dtype, const at::Tensor& out);

}  // namespace shardfuzz::native
