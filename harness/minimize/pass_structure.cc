// Passes that take away ranks, steps, groups, parameters and operations.
#include <algorithm>
#include <utility>

#include "harness/minimize/case_size.h"
#include "harness/minimize/detail/pass_parts.h"

namespace shardfuzz::detail {
namespace {

const Operation kForwardOnly{.kind = OpKind::kForward, .group = {}, .param = {}};

Mesh one_dim(int shard_size) { return {.shape = {shard_size}, .dim_names = {"shard"}}; }

// Meshes with fewer ranks or dimensions, most aggressive first.
std::vector<Mesh> smaller_meshes(const Mesh& mesh) {
  std::vector<Mesh> meshes;
  const auto add = [&](Mesh smaller) {
    if (std::find(meshes.begin(), meshes.end(), smaller) == meshes.end()) {
      meshes.push_back(std::move(smaller));
    }
  };
  const int shard_size = mesh.shard_size();
  if (mesh.shape.size() > 1) {
    for (const int size : {1, 2, shard_size}) {
      if (size <= shard_size) add(one_dim(size));
    }
    // A failure that needs so many ranks, however they are laid out.
    for (const std::int64_t size : toward(1, mesh.world_size())) {
      add(one_dim(static_cast<int>(size)));
    }
    add(one_dim(mesh.world_size()));
    for (std::size_t dim = 0; dim < mesh.shape.size(); ++dim) {
      if (mesh.dim_names[dim] == "shard") continue;  // each mesh has one
      Mesh without = mesh;
      without.shape.erase(without.shape.begin() + static_cast<std::ptrdiff_t>(dim));
      without.dim_names.erase(without.dim_names.begin() + static_cast<std::ptrdiff_t>(dim));
      add(std::move(without));
    }
  }
  for (std::size_t dim = 0; dim < mesh.shape.size(); ++dim) {
    for (const std::int64_t size : toward(1, mesh.shape[dim])) {
      Mesh smaller = mesh;
      smaller.shape[dim] = static_cast<int>(size);
      add(std::move(smaller));
    }
  }
  return meshes;
}

// How a parameter's rows stand to the ranks is what most failures depend on, so rows and ranks must
// change together: (8 rows, 3 ranks) fails where (8, 2) and (7, 3) may not, yet (3, 2) does.
std::vector<std::int64_t> rows_for(const ParamSpec& param, int old_ranks, int ranks) {
  std::vector<std::int64_t> values;
  const std::int64_t kept_difference = rows_of(param) - (old_ranks - ranks);
  for (const std::int64_t rows :
       {std::int64_t{1}, std::int64_t{ranks} - 1, std::int64_t{ranks} + 1, kept_difference}) {
    if (rows < 1 || std::find(values.begin(), values.end(), rows) != values.end()) continue;
    values.push_back(rows);
  }
  return values;
}

bool refers_to_groups(const Operation& op) { return !op.group.empty(); }

// [a, b, a, b] once is [a, b] twice: the same run with less to read.
void propose_rolled(const Case& c, Proposals* proposals) {
  const std::size_t count = c.operations.size();
  for (std::size_t length = 1; length * 2 <= count; ++length) {
    if (count % length != 0) continue;
    const bool repeats = std::equal(c.operations.begin() + static_cast<std::ptrdiff_t>(length),
                                    c.operations.end(), c.operations.begin());
    if (!repeats) continue;
    Case rolled = c;
    rolled.operations.resize(length);
    rolled.steps = c.steps * static_cast<int>(count / length);
    proposals->push_back(std::move(rolled));
  }
}

}  // namespace

// The smallest cases one can think of that still have the parameter: where one of them fails the
// same way, all starts end in the same form after a handful of evaluations.
Proposals propose_skeleton(const Case& c, const Focus& focus) {
  Proposals proposals;
  for (const ParamRef ref : focused(c, focus)) {
    Case bare = c;
    keep_only(&bare, ref, Place::kRoot);
    set_mesh(&bare, one_dim(std::min(2, c.mesh.shard_size())));
    for (const Reset& reset : resets_for(bare)) reset.apply(&bare);
    floor_dims(&bare, {0, 0});
    use_canonical_names(&bare);
    bare.steps = 1;
    for (const bool forward_only : {true, false}) {
      bare.operations.clear();
      if (forward_only) bare.operations = {kForwardOnly};
      for (const std::int64_t rows : {1, 3}) {
        set_rows(&bare, {0, 0}, rows);
        proposals.push_back(bare);
      }
    }
  }
  return proposals;
}

Proposals propose_mesh(const Case& c, const Focus& focus) {
  Proposals proposals;
  const std::vector<Mesh> meshes = smaller_meshes(c.mesh);
  for (const Mesh& mesh : meshes) {
    proposals.push_back(c);
    set_mesh(&proposals.back(), mesh);
  }
  for (const Mesh& mesh : meshes) {
    const int ranks = mesh.shard_size();
    if (ranks < 2 || ranks > 3) continue;
    for (const ParamRef ref : focused(c, focus)) {
      for (const std::int64_t rows : rows_for(at(c, ref), c.mesh.shard_size(), ranks)) {
        Case smaller = c;
        set_mesh(&smaller, mesh);
        set_rows(&smaller, ref, rows);
        proposals.push_back(std::move(smaller));
      }
    }
  }
  return proposals;
}

Proposals propose_steps(const Case& c, const Focus&) {
  Proposals proposals;
  for (const std::int64_t steps : toward(1, c.steps)) {
    proposals.push_back(c);
    proposals.back().steps = static_cast<int>(steps);
  }
  return proposals;
}

// One parameter alone: in the root, else in a group of its own below an empty root. Operations on
// the others are left out or, where the failure needs them, done to this one.
Proposals propose_one_param(const Case& c, const Focus& focus) {
  Proposals proposals;
  const bool is_known = find_param(c, focus.group, focus.param).has_value();
  for (const ParamRef ref : is_known ? focused(c, focus) : params_of(c)) {
    Case retargeted = c;
    retarget_operations(&retargeted, params_of(c), ref);
    for (const Case& start : {c, retargeted}) {
      for (const Place place : {Place::kRoot, Place::kNested}) {
        proposals.push_back(start);
        keep_only(&proposals.back(), ref, place);
      }
    }
  }
  return proposals;
}

Proposals propose_fewer_groups(const Case& c, const Focus&) {
  Proposals proposals;
  for (const Chunk chunk : chunks_of(c.groups.size() - 1)) {
    proposals.push_back(c);
    drop_groups(&proposals.back(), 1 + chunk.first, 1 + chunk.last);
  }
  return proposals;
}

Proposals propose_fewer_params(const Case& c, const Focus& focus) {
  Proposals proposals;
  const std::vector<ParamRef> refs = params_of(c);
  for (const Chunk chunk : chunks_of(refs.size())) {
    const std::vector<ParamRef> dropped(refs.begin() + static_cast<std::ptrdiff_t>(chunk.first),
                                        refs.begin() + static_cast<std::ptrdiff_t>(chunk.last));
    proposals.push_back(c);
    drop_params(&proposals.back(), dropped);
    for (const ParamRef ref : focused(c, focus)) {
      proposals.push_back(c);
      retarget_operations(&proposals.back(), dropped, ref);
      drop_params(&proposals.back(), dropped);
    }
  }
  return proposals;
}

Proposals propose_into_root(const Case& c, const Focus&) {
  Proposals proposals;
  for (std::size_t group = 1; group < c.groups.size(); ++group) {
    for (const Settings settings : {Settings::kOfGroup, Settings::kOfRoot}) {
      proposals.push_back(c);
      merge_into_root(&proposals.back(), group, settings);
    }
  }
  for (const ParamRef ref : params_of(c)) {
    if (ref.group == 0 || c.groups[ref.group].params.size() == 1) continue;
    proposals.push_back(c);
    move_into_root(&proposals.back(), ref);
  }
  return proposals;
}

Proposals propose_operations(const Case& c, const Focus&) {
  Proposals proposals;
  const auto with = [&](std::vector<Operation> operations) {
    proposals.push_back(c);
    proposals.back().operations = std::move(operations);
  };
  const std::vector<Operation> now = operations_of(c);
  with({kForwardOnly});
  with({kForwardOnly, {.kind = OpKind::kBackward, .group = {}, .param = {}}});
  with({});  // the default four
  std::vector<Operation> whole_model = now;
  std::erase_if(whole_model, refers_to_groups);
  if (!whole_model.empty()) with(std::move(whole_model));
  for (const Chunk chunk : chunks_of(now.size())) {
    std::vector<Operation> fewer = now;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(chunk.first),
                fewer.begin() + static_cast<std::ptrdiff_t>(chunk.last));
    if (!fewer.empty()) with(std::move(fewer));
  }
  propose_rolled(c, &proposals);
  return proposals;
}

}  // namespace shardfuzz::detail
