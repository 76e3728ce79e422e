#include "harness/case/pack_info.h"

#include <algorithm>

namespace shardfuzz {
namespace {

std::vector<PackInfo> built_in_packs() {
  std::vector<PackInfo> packs;
  packs.push_back({.name = "plain",
                   .about = "a plain parameter without hooks (control)",
                   .hooks = {{.name = "none", .arguments = 0, .is_control = true}},
                   .calls = {CallPath::kMul, CallPath::kLinear, CallPath::kBmm,
                             CallPath::kGroupedMm, CallPath::kGroupedMmNoOffs},
                   .dtypes = {DType::kFloat32, DType::kBFloat16}});
  packs.push_back({.name = "torchao_moe_fp8",
                   .about = "torchao.prototype.moe_training's fp8 grouped-GEMM weight wrapper",
                   .hooks = {{.name = "shipped", .arguments = 5},
                             {.name = "one_arg", .arguments = 1, .casts = false},
                             {.name = "padded", .arguments = 5, .is_control = true}},
                   .calls = {CallPath::kGroupedMm, CallPath::kMul, CallPath::kGroupedMmNoOffs},
                   .dtypes = {DType::kFloat32, DType::kBFloat16},
                   .dim_multiple = 16,
                   .is_extension = true,
                   .needs_param_dtype = true});
  packs.push_back({.name = "torchao_float8_linear",
                   .about = "torchao.float8's linear weight with fp8 all-gather",
                   .hooks = {{.name = "shipped", .arguments = 1}},
                   .calls = {CallPath::kLinear},
                   .dtypes = {DType::kFloat32, DType::kBFloat16},
                   .dim_multiple = 16,
                   .is_extension = true,
                   .gathers_values = false,
                   .gathered_item_bytes = 1,
                   .hook_all_reduce_elements = 1});
  packs.push_back({.name = "data_and_scales",
                   .about = "an extension that gathers data and a scale for each row",
                   .hooks = {{.name = "padded", .arguments = 1}},
                   .calls = {CallPath::kMul, CallPath::kLinear},
                   .dtypes = {DType::kFloat32, DType::kBFloat16},
                   .is_extension = true,
                   .gathers_values = false,
                   .has_scales = true,
                   .gathered_item_bytes = 2,
                   .gathered_scale_bytes_a_row = 4,
                   .holds_values = true});
  return packs;
}

std::vector<PackInfo>& registry() {
  static std::vector<PackInfo> packs = built_in_packs();
  return packs;
}

}  // namespace

bool PackInfo::casts_before_gather(std::string_view hook) const {
  const HookInfo* info = find_hook(*this, hook);
  return info == nullptr || info->casts;
}

const std::vector<PackInfo>& all_packs() { return registry(); }

const PackInfo* find_pack(std::string_view name) {
  const auto& packs = registry();
  const auto found = std::find_if(packs.begin(), packs.end(),
                                  [&](const PackInfo& pack) { return pack.name == name; });
  return found == packs.end() ? nullptr : &*found;
}

const HookInfo* find_hook(const PackInfo& pack, std::string_view hook) {
  const auto found = std::find_if(pack.hooks.begin(), pack.hooks.end(),
                                  [&](const HookInfo& info) { return info.name == hook; });
  return found == pack.hooks.end() ? nullptr : &*found;
}

void add_pack(PackInfo pack) {
  auto& packs = registry();
  std::erase_if(packs, [&](const PackInfo& known) { return known.name == pack.name; });
  packs.push_back(std::move(pack));
}

}  // namespace shardfuzz
