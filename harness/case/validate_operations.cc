// The rules for the operations of one step.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "harness/case/case_names.h"
#include "harness/case/detail/suggest.h"
#include "harness/case/detail/validate_parts.h"
#include "harness/case/validate.h"

namespace shardfuzz::detail {
namespace {

template <typename Spec>
std::vector<std::string_view> names_in(const std::vector<Spec>& specs) {
  std::vector<std::string_view> known;
  known.reserve(specs.size());
  for (const Spec& spec : specs) known.push_back(spec.name);
  return known;
}

template <typename Spec>
const Spec* find_by_name(const std::vector<Spec>& specs, std::string_view name) {
  const auto found =
      std::find_if(specs.begin(), specs.end(), [&](const Spec& spec) { return spec.name == name; });
  return found == specs.end() ? nullptr : &*found;
}

// An argument that the operation does not use would give one experiment two spellings.
Status check_unused_arguments(const Operation& op, const std::string& path) {
  const OpArguments wanted = arguments_of(op.kind);
  const auto extra = [&](const char* field) {
    return broken(path + "/" + field, fmt::format("'{}' takes no {}", name_of(op.kind), field),
                  "leave it out");
  };
  if (!wanted.group && !op.group.empty()) return extra("group");
  if (!wanted.param && !op.param.empty()) return extra("param");
  if (!wanted.flag && op.flag) return extra("flag");
  return Done{};
}

Status check_names(const Case& c, const Operation& op, const std::string& path) {
  const OpArguments wanted = arguments_of(op.kind);
  if (!wanted.group) return Done{};
  const GroupSpec* group = find_by_name(c.groups, op.group);
  if (group == nullptr) {
    return broken(
        path + "/group",
        fmt::format("'{}' needs a group, {} is none", name_of(op.kind), in_quotes(op.group)),
        way_out(op.group, names_in(c.groups)));
  }
  if (!wanted.param || find_by_name(group->params, op.param) != nullptr) return Done{};
  return broken(path + "/param",
                fmt::format("'{}' needs a parameter of group '{}', {} is none", name_of(op.kind),
                            group->name, in_quotes(op.param)),
                way_out(op.param, names_in(group->params)));
}

// What earlier operations of the list leave behind for later ones.
struct Earlier {
  std::set<std::string> unsharding;  // groups with an async unshard that nobody waited for
  bool saved = false;
};

Status check_order(const Case& c, const Operation& op, const std::string& path, Earlier* earlier) {
  switch (op.kind) {
    case OpKind::kUnshard:
      // One that is not async gives no handle and leaves an earlier one as it is.
      if (op.flag) earlier->unsharding.insert(op.group);
      return Done{};
    case OpKind::kWaitUnshard:
      if (earlier->unsharding.erase(op.group) > 0) return Done{};
      return broken(path, fmt::format("no async unshard of group '{}' is waiting here", op.group),
                    R"(put {"op": "unshard", "group": ..., "flag": true} before it)");
    case OpKind::kSave: earlier->saved = true; return Done{};
    case OpKind::kLoad:
      if (earlier->saved) return Done{};
      return broken(path, "nothing was saved before this load", "put \"save\" before it");
    case OpKind::kAllReduce: {
      const auto& names = c.mesh.dim_names;
      const bool is_hsdp = std::count(names.begin(), names.end(), "replicate") > 0 &&
                           std::count(names.begin(), names.end(), "shard") > 0;
      if (is_hsdp) return Done{};
      return broken(path, "'all_reduce' concerns HSDP only",
                    "use a mesh of replicate x shard, or leave it out");
    }
    case OpKind::kForward:
    case OpKind::kBackward:
    case OpKind::kStep:
    case OpKind::kZeroGrad:
    case OpKind::kReshard:
    case OpKind::kPrefetchForward:
    case OpKind::kPrefetchBackward:
    case OpKind::kUnshardAsyncOp:
    case OpKind::kGradientSync:
    case OpKind::kReshardAfterBackward:
    case OpKind::kFreeze:
    case OpKind::kUnfreeze:
    case OpKind::kFullTensor: return Done{};
  }
  SHARDFUZZ_CHECK(false, "operation {} has no rule", static_cast<int>(op.kind));
}

}  // namespace

Status validate_operations(const Case& c) {
  if (c.operations.size() > kMaxOperations) {
    return broken("/operations", fmt::format("{} operations", c.operations.size()),
                  fmt::format("one step has at most {}", kMaxOperations));
  }
  Earlier earlier;
  for (std::size_t i = 0; i < c.operations.size(); ++i) {
    const Operation& op = c.operations[i];
    const std::string path = fmt::format("/operations/{}", i);
    if (Status s = check_unused_arguments(op, path); !s) return s;
    if (Status s = check_names(c, op, path); !s) return s;
    if (Status s = check_order(c, op, path, &earlier); !s) return s;
  }
  return Done{};
}

}  // namespace shardfuzz::detail
