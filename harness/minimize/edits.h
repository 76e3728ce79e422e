// Edits: changes to a case that keep the rest of it consistent.
//
// Guarantees: after an edit no operation and no tie names a group or parameter that is gone, every
// list with one entry a rank fits the mesh and empty_experts names experts that are there. An edit
// never touches `pack` and `hook` of a parameter (they are what is under test) nor the fields about
// the file (name, origin, environment, ...). Refuses nothing: whether the outcome is a case that
// can be run is validate()'s to say. Use:  drop_params(&c, {{.group = 1, .param = 0}});
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/case/case.h"

namespace shardfuzz {

struct ParamRef {
  std::size_t group = 0, param = 0;  // indices in the case
  bool operator==(const ParamRef&) const = default;
};

std::vector<ParamRef> params_of(const Case& c);
std::optional<ParamRef> find_param(const Case& c, std::string_view group, std::string_view param);
inline ParamSpec& at(Case* c, ParamRef ref) { return c->groups[ref.group].params[ref.param]; }
inline const ParamSpec& at(const Case& c, ParamRef ref) {
  return c.groups[ref.group].params[ref.param];
}

// Nested groups that are left without parameters go too; the root may stay empty.
void drop_params(Case* c, const std::vector<ParamRef>& dropped);
// The root (group 0) is never dropped.
void drop_groups(Case* c, std::size_t first, std::size_t last);

enum class Place { kRoot, kNested };
// Operations on one of `from`, or on a nested group that consists of them, are done to `to`
// instead.
void retarget_operations(Case* c, const std::vector<ParamRef>& from, ParamRef to);
// Leaves one parameter. kRoot: in a root that has its group's settings. kNested: in its own group
// below an empty root; does nothing more than kRoot where it is in the root already.
void keep_only(Case* c, ParamRef kept, Place place);

enum class Settings { kOfRoot, kOfGroup };
// Moves the parameters of a nested group into the root.
void merge_into_root(Case* c, std::size_t group, Settings settings);
// Moves one of several parameters of a nested group into the root, which keeps its settings.
void move_into_root(Case* c, ParamRef moved);

// Also fits tokens_by_rank, delays, unused_on_ranks and an integer reshard_after_forward, and drops
// operations and fields that need a mesh dimension that is gone.
void set_mesh(Case* c, Mesh mesh);
// The mesh with its "shard" dimension (or the last one where there is none) of this size.
Mesh with_shard_size(Mesh mesh, int size);
// The parameter itself first, then all that are one tensor with it: they must be built alike.
std::vector<ParamRef> tied_with(const Case& c, ParamRef ref);
// Of the parameter and all tied to it. Also drops empty_experts that are beyond the last expert.
void set_shape(Case* c, ParamRef ref, const std::vector<std::int64_t>& shape);
// The same along the shard dim only.
void set_rows(Case* c, ParamRef ref, std::int64_t rows);
std::int64_t rows_of(const ParamSpec& param);

std::string canonical_group_name(std::size_t group);  // root, g1, g2, ...
std::string canonical_param_name(std::size_t param);  // w, w1, w2, ...
void use_canonical_names(Case* c);

}  // namespace shardfuzz
