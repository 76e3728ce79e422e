#include "harness/oracle/expected.h"

#include <algorithm>
#include <variant>

#include "harness/base/check.h"

namespace shardfuzz {
namespace {

std::int64_t numel_of(const std::vector<std::int64_t>& shape) {
  std::int64_t numel = 1;
  for (const std::int64_t dim : shape) numel *= dim;
  return numel;
}

layout::Step step_of(const Operation& operation) {
  using layout::Step;
  switch (operation.kind) {
    case OpKind::kForward: return Step::kForward;
    case OpKind::kBackward: return Step::kBackward;
    case OpKind::kUnshard: return Step::kUnshard;
    case OpKind::kWaitUnshard: return Step::kWaitUnshard;
    case OpKind::kReshard: return Step::kReshard;
    case OpKind::kPrefetchForward: return Step::kPrefetchForward;
    case OpKind::kPrefetchBackward: return Step::kPrefetchBackward;
    case OpKind::kUnshardAsyncOp: return Step::kAsyncUnshard;
    case OpKind::kGradientSync: return operation.flag ? Step::kSyncOn : Step::kSyncOff;
    case OpKind::kReshardAfterBackward:
      return operation.flag ? Step::kReshardAfterBackwardOn : Step::kReshardAfterBackwardOff;
    case OpKind::kAllReduce: return operation.flag ? Step::kAllReduceOn : Step::kAllReduceOff;
    case OpKind::kFreeze: return Step::kFreeze;
    case OpKind::kUnfreeze: return Step::kUnfreeze;
    case OpKind::kSave:
    case OpKind::kLoad: return Step::kStateDict;
    case OpKind::kZeroGrad: return Step::kZeroGrad;
    case OpKind::kFullTensor:
    case OpKind::kStep: return Step::kOther;
  }
  SHARDFUZZ_CHECK(false, "unknown operation");
}

// The root is resharded after forward only where its policy says so in words (not by default).
layout::Reshard policy_of(const GroupSpec& group, bool is_root, int shard_size, int* ranks) {
  if (const bool* flag = std::get_if<bool>(&group.reshard_after_forward)) {
    return *flag ? layout::Reshard::kAfterForward : layout::Reshard::kNever;
  }
  if (const int* size = std::get_if<int>(&group.reshard_after_forward)) {
    if (*size == 1) return layout::Reshard::kNever;  // fully_shard takes 1 as False
    if (*size == shard_size) return layout::Reshard::kAfterForward;
    *ranks = *size;
    return layout::Reshard::kToSmallerMesh;
  }
  return is_root ? layout::Reshard::kNever : layout::Reshard::kAfterForward;
}

const ParamSpec* find_param(const GroupSpec& group, std::string_view name) {
  const auto found = std::find_if(group.params.begin(), group.params.end(),
                                  [&](const ParamSpec& param) { return param.name == name; });
  return found == group.params.end() ? nullptr : &*found;
}

int index_of_group(const Case& c, std::string_view name) {
  for (std::size_t g = 0; g < c.groups.size(); ++g) {
    if (c.groups[g].name == name) return static_cast<int>(g);
  }
  return 0;
}

// The operation in the rule book's words. FSDP2 manages a tied parameter once, where it comes
// first, so its place is that of the one it is tied to, counted without tied ones.
layout::Operation planned_operation(const Case& c, const Operation& operation) {
  layout::Operation planned{.step = step_of(operation),
                            .group = index_of_group(c, operation.group),
                            .is_async = operation.kind == OpKind::kUnshard && operation.flag};
  if (operation.param.empty()) return planned;
  std::string name = operation.param;
  const ParamSpec* param = find_param(c.groups[static_cast<std::size_t>(planned.group)], name);
  if (param != nullptr && !param->tied_to.empty()) {
    const std::size_t dot = param->tied_to.find('.');
    planned.group = index_of_group(c, param->tied_to.substr(0, dot));
    name = param->tied_to.substr(dot + 1);
  }
  planned.param = 0;
  for (const ParamSpec& other : c.groups[static_cast<std::size_t>(planned.group)].params) {
    if (other.name == name) break;
    if (other.tied_to.empty()) ++planned.param;
  }
  return planned;
}

}  // namespace

std::string_view torch_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return "float32";
    case DType::kBFloat16: return "bfloat16";
    case DType::kFloat16: return "float16";
    case DType::kFloat8E4M3: return "float8_e4m3fn";
    case DType::kUInt8: return "uint8";
  }
  SHARDFUZZ_CHECK(false, "unknown dtype");
}

Expected::Expected(const Case& c) : case_(c), operations_(operations_of(c)) {
  for (std::size_t g = 0; g < c.groups.size(); ++g) {
    for (const ParamSpec& param : c.groups[g].params) {
      params_.push_back({.group = &c.groups[g],
                         .param = &param,
                         .pack = find_pack(param.pack),
                         .group_index = static_cast<int>(g)});
    }
  }
  std::vector<layout::Operation> program;
  for (int step = 0; step < c.steps; ++step) {
    for (const Operation& operation : operations_) {
      program.push_back(planned_operation(c, operation));
    }
  }
  life_ = layout::live(life_model(), program);
}

const ParamView* Expected::find(std::string_view group, std::string_view param) const {
  const auto found = std::find_if(params_.begin(), params_.end(), [&](const ParamView& view) {
    return view.group->name == group && view.param->name == param;
  });
  return found == params_.end() ? nullptr : &*found;
}

layout::Split Expected::split_of(const ParamView& view) const {
  return {.total = view.param->shape.at(static_cast<std::size_t>(view.param->shard_dim)),
          .ranks = case_.mesh.shard_size()};
}

int Expected::shard_rank_of(int rank) const { return rank % case_.mesh.shard_size(); }

layout::ShardClass Expected::class_of(const ParamView& view, int rank) const {
  return layout::class_of(split_of(view), shard_rank_of(rank));
}

std::string_view Expected::class_name(std::string_view group, std::string_view param,
                                      int rank) const {
  const ParamView* view = find(group, param);
  if (view == nullptr || rank < 0) return "full";
  return layout::name_of(class_of(*view, rank));
}

std::vector<std::int64_t> Expected::padded_shape(const ParamView& view) const {
  std::vector<std::int64_t> shape = view.param->shape;
  shape[static_cast<std::size_t>(view.param->shard_dim)] = layout::padded_rows(split_of(view));
  return shape;
}

DType Expected::sent_dtype(const ParamView& view) const {
  return view.group->mixed_precision.param_dtype.value_or(view.param->dtype);
}

layout::LifeModel Expected::life_model() const {
  layout::LifeModel model{.shard_ranks = case_.mesh.shard_size(),
                          .has_replicas = case_.mesh.shape.size() > 1};
  for (std::size_t g = 0; g < case_.groups.size(); ++g) {
    const GroupSpec& group = case_.groups[g];
    layout::LifeGroup life_group;
    life_group.reshard = policy_of(group, g == 0, model.shard_ranks, &life_group.reshard_ranks);
    for (const ParamView& view : params_) {
      if (view.group != &group) continue;
      if (!view.param->tied_to.empty()) continue;  // FSDP2 manages a shared parameter once
      const std::int64_t numel = numel_of(padded_shape(view));
      const int item = view.pack->gathered_item_bytes != 0 ? view.pack->gathered_item_bytes
                       : view.pack->casts_before_gather(view.param->hook)
                           ? element_bytes(sent_dtype(view))
                           : element_bytes(view.param->dtype);
      const std::int64_t rows = padded_shape(view)[0];
      // Gradients come in the compute dtype; reduce_dtype, where given, is what they wait in and
      // what goes on the wire.
      const DType reduced = group.mixed_precision.reduce_dtype.value_or(sent_dtype(view));
      life_group.params.push_back(
          {.gather_bytes = numel * item + rows * view.pack->gathered_scale_bytes_a_row,
           .gather_numel = numel,
           .reduce_numel = numel,
           .hook_reduce_bytes =
               view.pack->hook_all_reduce_elements * element_bytes(view.param->dtype),
           .value_bytes = view.pack->holds_values
                              ? numel_of(view.param->shape) * element_bytes(sent_dtype(view))
                              : 0,
           .gradient_bytes = numel_of(view.param->shape) * element_bytes(reduced),
           .trainable = view.param->requires_grad});
      // Gradients come in the compute dtype; reduce_dtype, where given, is what goes on the wire. A
      // group that is all frozen may be unfrozen later.
      if (view.param->requires_grad || life_group.params.size() == 1) {
        life_group.reduce_item_bytes = element_bytes(reduced);
        const bool moves = group.offload_to_cpu && case_.environment.device != "cpu";
        life_group.casts_reduced = reduced != view.param->dtype || moves;
      }
    }
    life_group.is_used = static_cast<int>(group.unused_on_ranks.size()) < case_.mesh.world_size();
    model.groups.push_back(std::move(life_group));
  }
  return model;
}

}  // namespace shardfuzz
