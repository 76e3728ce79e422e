#include "harness/minimize/edits.h"

#include <algorithm>
#include <utility>

#include "harness/base/check.h"

namespace shardfuzz {
namespace {

std::string full_name(const Case& c, ParamRef ref) {
  return c.groups[ref.group].name + "." + at(c, ref).name;
}

std::optional<std::size_t> find_group(const Case& c, std::string_view name) {
  for (std::size_t g = 0; g < c.groups.size(); ++g) {
    if (c.groups[g].name == name) return g;
  }
  return std::nullopt;
}

std::optional<ParamRef> find_full_name(const Case& c, std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  return find_param(c, name.substr(0, dot), name.substr(dot + 1));
}

// An operation list that loses everything would mean the default four; one forward is less than
// that.
void drop_operations_if(Case* c, const auto& is_dropped) {
  if (c->operations.empty()) return;
  std::erase_if(c->operations, is_dropped);
  if (c->operations.empty()) c->operations = {{.kind = OpKind::kForward, .group = {}, .param = {}}};
}

void drop_dangling_references(Case* c) {
  for (GroupSpec& group : c->groups) {
    for (ParamSpec& param : group.params) {
      if (!param.tied_to.empty() && !find_full_name(*c, param.tied_to)) param.tied_to.clear();
      if (param.tied_to == group.name + "." + param.name) param.tied_to.clear();
    }
  }
  drop_operations_if(c, [&](const Operation& op) {
    if (op.group.empty()) return false;
    return op.param.empty() ? !find_group(*c, op.group) : !find_param(*c, op.group, op.param);
  });
  c->groups[0].unused_on_ranks.clear();  // the root is used on every rank
}

// Where every group and parameter went, so that references follow.
struct Renaming {
  std::vector<std::pair<std::string, std::string>> groups,
      params;  // old -> new; params by full name
};

std::string renamed(const std::vector<std::pair<std::string, std::string>>& map,
                    const std::string& name) {
  const auto found =
      std::find_if(map.begin(), map.end(), [&](const auto& entry) { return entry.first == name; });
  return found == map.end() ? name : found->second;
}

// Only rewrites references; the names themselves have been changed by the caller.
void follow(Case* c, const Renaming& renaming) {
  for (GroupSpec& group : c->groups) {
    for (ParamSpec& param : group.params) param.tied_to = renamed(renaming.params, param.tied_to);
  }
  for (Operation& op : c->operations) {
    if (op.group.empty()) continue;
    if (!op.param.empty()) {
      const std::string to = renamed(renaming.params, op.group + "." + op.param);
      const std::size_t dot = to.find('.');
      op.group = to.substr(0, dot);
      op.param = to.substr(dot + 1);
    } else {
      op.group = renamed(renaming.groups, op.group);
    }
  }
}

std::string unused_name(const GroupSpec& group, std::string name) {
  const auto taken = [&] {
    return std::any_of(group.params.begin(), group.params.end(),
                       [&](const ParamSpec& param) { return param.name == name; });
  };
  while (taken()) name += "_1";
  return name;
}

void fit_reshard(ReshardAfterForward* reshard, int shard_size) {
  const int* wanted = std::get_if<int>(reshard);
  if (wanted == nullptr) return;
  for (int size = std::min(*wanted, shard_size - 1); size > 1; --size) {
    if (shard_size % size == 0) {
      *reshard = size;
      return;
    }
  }
  *reshard = true;  // what a number between 1 and the whole group comes closest to
}

// Experts are dim 0 of three-dimensional parameters.
void fit_empty_experts(Case* c) {
  std::int64_t experts = 0;
  for (const ParamRef ref : params_of(*c)) {
    const auto& shape = at(*c, ref).shape;
    if (shape.size() == 3) experts = std::max(experts, shape[0]);
  }
  std::erase_if(c->batch.empty_experts, [&](int expert) { return expert >= experts; });
}

bool has_dim(const Mesh& mesh, std::string_view name) {
  return std::find(mesh.dim_names.begin(), mesh.dim_names.end(), name) != mesh.dim_names.end();
}

}  // namespace

std::vector<ParamRef> params_of(const Case& c) {
  std::vector<ParamRef> refs;
  for (std::size_t g = 0; g < c.groups.size(); ++g) {
    for (std::size_t p = 0; p < c.groups[g].params.size(); ++p) refs.push_back({g, p});
  }
  return refs;
}

std::optional<ParamRef> find_param(const Case& c, std::string_view group, std::string_view param) {
  for (const ParamRef ref : params_of(c)) {
    if (c.groups[ref.group].name == group && at(c, ref).name == param) return ref;
  }
  return std::nullopt;
}

void drop_params(Case* c, const std::vector<ParamRef>& dropped) {
  std::vector<GroupSpec> groups;
  for (std::size_t g = 0; g < c->groups.size(); ++g) {
    GroupSpec group = c->groups[g];
    group.params.clear();
    for (std::size_t p = 0; p < c->groups[g].params.size(); ++p) {
      const bool is_dropped =
          std::find(dropped.begin(), dropped.end(), ParamRef{g, p}) != dropped.end();
      if (!is_dropped) group.params.push_back(c->groups[g].params[p]);
    }
    if (g == 0 || !group.params.empty()) groups.push_back(std::move(group));
  }
  c->groups = std::move(groups);
  drop_dangling_references(c);
  fit_empty_experts(c);
}

void retarget_operations(Case* c, const std::vector<ParamRef>& from, ParamRef to) {
  const auto is_from = [&](ParamRef ref) {
    return std::find(from.begin(), from.end(), ref) != from.end();
  };
  const auto is_whole_group = [&](std::size_t group) {
    std::size_t param = 0;
    while (param < c->groups[group].params.size() && is_from({group, param})) ++param;
    return group > 0 && param == c->groups[group].params.size();
  };
  for (Operation& op : c->operations) {
    const auto group = find_group(*c, op.group);
    const auto param = find_param(*c, op.group, op.param);
    const bool moves =
        op.param.empty() ? group && is_whole_group(*group) : param && is_from(*param);
    if (!moves) continue;
    op.group = c->groups[to.group].name;
    if (!op.param.empty()) op.param = at(c, to).name;
  }
}

void drop_groups(Case* c, std::size_t first, std::size_t last) {
  SHARDFUZZ_CHECK(first >= 1 && first <= last && last <= c->groups.size(),
                  "groups [{}, {}) of {} cannot be dropped", first, last, c->groups.size());
  c->groups.erase(c->groups.begin() + static_cast<std::ptrdiff_t>(first),
                  c->groups.begin() + static_cast<std::ptrdiff_t>(last));
  drop_dangling_references(c);
  fit_empty_experts(c);
}

void keep_only(Case* c, ParamRef kept, Place place) {
  GroupSpec group = c->groups[kept.group];
  group.params = {at(*c, kept)};
  if (kept.group == 0) {
    c->groups = {std::move(group)};
  } else if (place == Place::kNested) {
    GroupSpec root = c->groups[0];
    root.params.clear();
    c->groups = {std::move(root), std::move(group)};
  } else {
    const std::string root_name = c->groups[0].name;
    const Renaming renaming{.groups = {{group.name, root_name}},
                            .params = {{full_name(*c, kept), root_name + "." + at(*c, kept).name}}};
    // References to what is dropped must go first: the old root may have a parameter of that name.
    c->groups = {std::move(group)};
    drop_dangling_references(c);
    c->groups[0].name = root_name;
    follow(c, renaming);
  }
  drop_dangling_references(c);
  fit_empty_experts(c);
}

void merge_into_root(Case* c, std::size_t group, Settings settings) {
  SHARDFUZZ_CHECK(group >= 1 && group < c->groups.size(), "group {} cannot be merged", group);
  const GroupSpec merged = c->groups[group];
  GroupSpec& root = c->groups[0];
  Renaming renaming{.groups = {{merged.name, root.name}}, .params = {}};
  for (ParamSpec param : merged.params) {
    const std::string old_name = merged.name + "." + param.name;
    param.name = unused_name(root, param.name);
    renaming.params.emplace_back(old_name, root.name + "." + param.name);
    root.params.push_back(std::move(param));
  }
  if (settings == Settings::kOfGroup) {
    std::vector<ParamSpec> params = std::move(root.params);
    std::string name = std::move(root.name);
    root = merged;
    root.params = std::move(params);
    root.name = std::move(name);
  }
  c->groups.erase(c->groups.begin() + static_cast<std::ptrdiff_t>(group));
  follow(c, renaming);
  drop_dangling_references(c);
}

void move_into_root(Case* c, ParamRef moved) {
  SHARDFUZZ_CHECK(moved.group >= 1 && c->groups[moved.group].params.size() > 1,
                  "parameter {} of group {} cannot be moved", moved.param, moved.group);
  GroupSpec& root = c->groups[0];
  const std::string old_name = full_name(*c, moved);
  ParamSpec param = at(*c, moved);
  param.name = unused_name(root, param.name);
  const Renaming renaming{.groups = {}, .params = {{old_name, root.name + "." + param.name}}};
  root.params.push_back(std::move(param));
  std::vector<ParamSpec>& left = c->groups[moved.group].params;
  left.erase(left.begin() + static_cast<std::ptrdiff_t>(moved.param));
  follow(c, renaming);
  drop_dangling_references(c);
}

void set_mesh(Case* c, Mesh mesh) {
  c->mesh = std::move(mesh);
  const int world_size = c->mesh.world_size();
  const auto ranks = static_cast<std::size_t>(world_size);
  if (!c->batch.tokens_by_rank.empty()) c->batch.tokens_by_rank.resize(ranks, 1);
  if (!c->schedule.delays.empty()) c->schedule.delays.resize(ranks, 0);
  for (GroupSpec& group : c->groups) {
    std::erase_if(group.unused_on_ranks, [&](int rank) { return rank >= world_size; });
    fit_reshard(&group.reshard_after_forward, c->mesh.shard_size());
    for (ParamSpec& param : group.params) {
      if (!has_dim(c->mesh, "tp")) param.tensor_parallel_dim.reset();
    }
  }
  if (!has_dim(c->mesh, "replicate")) {
    drop_operations_if(c, [](const Operation& op) { return op.kind == OpKind::kAllReduce; });
  }
}

Mesh with_shard_size(Mesh mesh, int size) {
  SHARDFUZZ_CHECK(!mesh.shape.empty(), "a mesh without dimensions");
  std::size_t dim = mesh.shape.size() - 1;
  for (std::size_t i = 0; i < mesh.dim_names.size() && i < mesh.shape.size(); ++i) {
    if (mesh.dim_names[i] == "shard") dim = i;
  }
  mesh.shape[dim] = size;
  return mesh;
}

std::vector<ParamRef> tied_with(const Case& c, ParamRef ref) {
  const auto first_of = [&](ParamRef of) {
    return at(c, of).tied_to.empty() ? full_name(c, of) : at(c, of).tied_to;
  };
  std::vector<ParamRef> refs{ref};
  for (const ParamRef other : params_of(c)) {
    if (!(other == ref) && first_of(other) == first_of(ref)) refs.push_back(other);
  }
  return refs;
}

void set_shape(Case* c, ParamRef ref, const std::vector<std::int64_t>& shape) {
  for (const ParamRef tied : tied_with(*c, ref)) at(c, tied).shape = shape;
  fit_empty_experts(c);
}

void set_rows(Case* c, ParamRef ref, std::int64_t rows) {
  std::vector<std::int64_t> shape = at(*c, ref).shape;
  const auto dim = static_cast<std::size_t>(at(*c, ref).shard_dim);
  SHARDFUZZ_CHECK(dim < shape.size(), "{} has no dim {}", full_name(*c, ref), dim);
  shape[dim] = rows;
  set_shape(c, ref, shape);
}

std::int64_t rows_of(const ParamSpec& param) {
  const auto dim = static_cast<std::size_t>(param.shard_dim);
  return dim < param.shape.size() ? param.shape[dim] : 1;
}

std::string canonical_group_name(std::size_t group) {
  return group == 0 ? "root" : "g" + std::to_string(group);
}

std::string canonical_param_name(std::size_t param) {
  return param == 0 ? "w" : "w" + std::to_string(param);
}

void use_canonical_names(Case* c) {
  Renaming renaming;
  for (std::size_t g = 0; g < c->groups.size(); ++g) {
    const GroupSpec& group = c->groups[g];
    renaming.groups.emplace_back(group.name, canonical_group_name(g));
    for (std::size_t p = 0; p < group.params.size(); ++p) {
      renaming.params.emplace_back(group.name + "." + group.params[p].name,
                                   canonical_group_name(g) + "." + canonical_param_name(p));
    }
  }
  for (std::size_t g = 0; g < c->groups.size(); ++g) {
    c->groups[g].name = canonical_group_name(g);
    for (std::size_t p = 0; p < c->groups[g].params.size(); ++p) {
      c->groups[g].params[p].name = canonical_param_name(p);
    }
  }
  follow(c, renaming);
}

}  // namespace shardfuzz
