#include "fuzz/documented_use.h"

#include <algorithm>
#include <variant>

#include "harness/case/pack_info.h"

namespace shardfuzz {
namespace {

void use_modules_on_all_ranks(Case* c) {
  for (GroupSpec& group : c->groups) {
    if (static_cast<int>(group.unused_on_ranks.size()) < c->mesh.world_size()) {
      group.unused_on_ranks.clear();
    }
  }
}

void use_modules_that_accumulate(Case* c) {
  const bool accumulates =
      std::any_of(c->operations.begin(), c->operations.end(), [](const Operation& operation) {
        return operation.kind == OpKind::kGradientSync && !operation.flag;
      });
  if (!accumulates) return;
  for (GroupSpec& group : c->groups) group.unused_on_ranks.clear();
}

void tie_within_groups_only(Case* c) {
  for (GroupSpec& group : c->groups) {
    for (ParamSpec& param : group.params) {
      const bool within = param.tied_to.rfind(group.name + ".", 0) == 0;
      if (!within) param.tied_to.clear();
    }
  }
}

void give_offsets(Case* c) {
  for (GroupSpec& group : c->groups) {
    for (ParamSpec& param : group.params) {
      const PackInfo* pack = find_pack(param.pack);
      const bool wrapped = pack != nullptr && pack->is_extension;
      if (wrapped && param.call == CallPath::kGroupedMmNoOffs) param.call = CallPath::kGroupedMm;
    }
  }
}

void give_rows(Case* c) {
  Batch& batch = c->batch;
  if (batch.tokens_per_expert == 0) batch.tokens_per_expert = Batch{}.tokens_per_expert;
  for (int& factor : batch.tokens_by_rank) factor = std::max(factor, 1);
  const auto is_empty = [&](std::int64_t expert) {
    return std::find(batch.empty_experts.begin(), batch.empty_experts.end(), expert) !=
           batch.empty_experts.end();
  };
  for (const GroupSpec& group : c->groups) {
    for (const ParamSpec& param : group.params) {
      if (param.call != CallPath::kGroupedMm) continue;
      bool some = false;
      for (std::int64_t expert = 0; expert < param.shape[0]; ++expert) some |= !is_empty(expert);
      if (!some) batch.empty_experts.clear();
    }
  }
}

void reshard_by_rows_only(Case* c) {
  for (GroupSpec& group : c->groups) {
    const bool by_rows = std::all_of(group.params.begin(), group.params.end(),
                                     [](const ParamSpec& param) { return param.shard_dim == 0; });
    if (!by_rows && std::holds_alternative<int>(group.reshard_after_forward)) {
      group.reshard_after_forward = std::monostate{};
    }
  }
}

// FSDPParam.to_sharded() forgets what to_sharded_post_forward() kept (torch 2.11).
void reshard_by_hand_from_the_whole_mesh_only(Case* c) {
  for (const GroupSpec& group : c->groups) {
    if (!std::holds_alternative<int>(group.reshard_after_forward)) continue;
    std::erase_if(c->operations, [&](const Operation& operation) {
      return operation.kind == OpKind::kReshard && operation.group == group.name;
    });
  }
}

bool is_freezing(const Operation& operation) {
  return operation.kind == OpKind::kFreeze || operation.kind == OpKind::kUnfreeze;
}

// One parameter of each group stays trainable, whatever is frozen.
void freeze_some_of_a_group(Case* c) {
  for (const GroupSpec& group : c->groups) {
    const auto trainable = std::count_if(
        group.params.begin(), group.params.end(),
        [](const ParamSpec& param) { return param.requires_grad && param.tied_to.empty(); });
    if (trainable > 1) continue;
    std::erase_if(c->operations, [&](const Operation& operation) {
      return is_freezing(operation) && operation.group == group.name;
    });
  }
}

void freeze_between_steps_only(Case* c) {
  const auto count = [&](OpKind kind) {
    return std::count_if(c->operations.begin(), c->operations.end(),
                         [&](const Operation& operation) { return operation.kind == kind; });
  };
  if (count(OpKind::kForward) <= 1 && count(OpKind::kBackward) <= 1) return;
  std::erase_if(c->operations, is_freezing);
}

}  // namespace

void keep_documented_use(Case* c) {
  use_modules_on_all_ranks(c);
  use_modules_that_accumulate(c);
  tie_within_groups_only(c);
  give_offsets(c);
  give_rows(c);
  reshard_by_rows_only(c);
  reshard_by_hand_from_the_whole_mesh_only(c);
  freeze_some_of_a_group(c);
  freeze_between_steps_only(c);
}

}  // namespace shardfuzz
