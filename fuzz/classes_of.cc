// classes_of(): a case as a list of named classes.
#include <fmt/ranges.h>

#include <algorithm>

#include "fuzz/features_of.h"
#include "harness/case/case_names.h"
#include "harness/layout/chunk.h"

namespace shardfuzz {
namespace {

// Collects each name once; cases are small, so a linear search will do.
class Names {
 public:
  void add(std::string name) {
    if (std::find(all_.begin(), all_.end(), name) == all_.end()) all_.push_back(std::move(name));
  }
  std::vector<std::string> take() && { return std::move(all_); }

 private:
  std::vector<std::string> all_;
};

std::string_view optional_name(const std::optional<DType>& dtype) {
  return dtype ? name_of(*dtype) : "none";
}

void add_split(const Case& c, const ParamSpec& param, Names* names) {
  const int ranks = c.mesh.shard_size();
  const std::int64_t total = param.shape[static_cast<std::size_t>(param.shard_dim)];
  const layout::Split split{.total = total, .ranks = ranks};
  names->add(layout::is_even(split) ? "split even" : "split uneven");
  for (int rank = 0; rank < ranks; ++rank) {
    names->add(fmt::format("shard {}", layout::name_of(layout::class_of(split, rank))));
  }
  names->add(fmt::format("rows {} W", total < ranks ? "<" : total == ranks ? "=" : ">"));
  if (total % ranks == 1 && total > ranks) names->add("rows kW+1");
  if (total % ranks == ranks - 1 && ranks > 1) names->add("rows kW-1");
  if (total > 32) names->add("rows > 32");
}

void add_group(const GroupSpec& group, Names* names) {
  const auto& reshard = group.reshard_after_forward;
  if (const int* size = std::get_if<int>(&reshard)) names->add(fmt::format("reshard {}", *size));
  if (const bool* flag = std::get_if<bool>(&reshard)) names->add(fmt::format("reshard {}", *flag));
  if (std::holds_alternative<std::monostate>(reshard)) names->add("reshard default");
  const MixedPrecision& mixed = group.mixed_precision;
  names->add(fmt::format("precision {}/{}", optional_name(mixed.param_dtype),
                         optional_name(mixed.reduce_dtype)));
  for (const ParamSpec& param : group.params) {
    names->add(fmt::format("pack {}:{}", param.pack, param.hook));
    names->add(fmt::format("call {}", name_of(param.call)));
    names->add(fmt::format("original {}", name_of(param.dtype)));
    names->add(fmt::format("dims {}", param.shape.size()));
  }
}

void add_trainable_mix(const GroupSpec& group, Names* names) {
  const ParamSpec* first = nullptr;
  for (const ParamSpec& param : group.params) {
    if (!param.requires_grad) continue;
    if (first == nullptr) first = &param;
    if (param.dtype != first->dtype) names->add("mixed trainable dtypes");
  }
}

}  // namespace

std::vector<std::string> classes_of(const Case& c) {
  Names names;
  const auto world_size = static_cast<std::size_t>(c.mesh.world_size());
  names.add(fmt::format("world {}", world_size));
  if (c.mesh.shape.size() > 1) names.add(fmt::format("mesh {}", fmt::join(c.mesh.shape, "x")));
  names.add(fmt::format("nested groups {}", c.groups.size() - 1));
  for (const GroupSpec& group : c.groups) {
    add_group(group, &names);
    add_trainable_mix(group, &names);
    for (const ParamSpec& param : group.params) add_split(c, param, &names);
    if (group.unused_on_ranks.empty()) continue;
    names.add(group.unused_on_ranks.size() == world_size ? "unused on all ranks"
                                                         : "unused on some ranks");
  }
  names.add(c.steps > 3 ? "steps > 3" : fmt::format("steps {}", c.steps));
  names.add(c.batch.tokens_per_expert == 0
                ? "tokens 0"
                : (c.batch.tokens_per_expert % 16 == 0 ? "tokens 16n" : "tokens other"));
  names.add(fmt::format("schedule {}", name_of(c.schedule.policy)));
  names.add(fmt::format("delivery {}", name_of(c.schedule.delivery)));
  for (const Operation& op : operations_of(c)) names.add(fmt::format("op {}", name_of(op.kind)));
  if (c.operations.empty()) names.add("default operations");
  for (const Feature feature : all_features()) {
    if (uses(c, feature)) names.add(fmt::format("feature {}", name_of(feature)));
  }
  return std::move(names).take();
}

}  // namespace shardfuzz
