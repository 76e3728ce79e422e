#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/case/case_names.h"
#include "harness/case/pack_info.h"
#include "harness/minimize/case_size.h"
#include "harness/minimize/detail/switches.h"

namespace shardfuzz {
namespace {

using Switches = std::vector<Switch>;

void add_steps(const Case& c, Switches* switches) {
  if (c.steps < 2) return;
  switches->push_back({fmt::format("steps >= {}", c.steps), c});
  --switches->back().without.steps;
}

// Operations that the case still has after minimizing; the default four are tried as a whole.
void add_operations(const Case& c, Switches* switches) {
  if (operations_of(c).size() > 1) {
    switches->push_back({"backward in operations", c});
    std::vector<Operation> operations = operations_of(c);
    const auto count =
        std::erase_if(operations, [](const Operation& op) { return op.kind == OpKind::kBackward; });
    switches->back().without.operations = std::move(operations);
    if (count == 0) switches->pop_back();
  }
  std::vector<OpKind> seen;
  for (const Operation& op : c.operations) {
    if (op.kind == OpKind::kForward || op.kind == OpKind::kBackward) continue;
    if (std::find(seen.begin(), seen.end(), op.kind) != seen.end()) continue;
    seen.push_back(op.kind);
    switches->push_back({fmt::format("{} in operations", name_of(op.kind)), c});
    auto& left = switches->back().without.operations;
    std::erase_if(left, [&](const Operation& other) { return other.kind == op.kind; });
  }
}

// Where the case says true it fails with true; where it says nothing, false and true are both
// tried.
void add_reshard(const Case& c, std::size_t group, Switches* switches) {
  const ReshardAfterForward& now = c.groups[group].reshard_after_forward;
  const auto add = [&](std::string text, ReshardAfterForward value) {
    switches->push_back({std::move(text), c});
    switches->back().without.groups[group].reshard_after_forward = value;
  };
  if (std::holds_alternative<std::monostate>(now)) {
    add("reshard_after_forward != false", false);
    add("reshard_after_forward != true", true);
  } else if (const bool* flag = std::get_if<bool>(&now)) {
    add(fmt::format("reshard_after_forward == {}", *flag), !*flag);
  } else {
    add(fmt::format("reshard_after_forward == {}", std::get<int>(now)), true);
  }
}

std::string dtype_text(const std::optional<DType>& dtype) {
  return dtype ? std::string(name_of(*dtype)) : "none";
}

void add_dtypes(const Case& c, ParamRef ref, Switches* switches) {
  const MixedPrecision& mixed = c.groups[ref.group].mixed_precision;
  const auto with = [&](std::string text) -> MixedPrecision& {
    switches->push_back({std::move(text), c});
    return switches->back().without.groups[ref.group].mixed_precision;
  };
  with("param_dtype == " + dtype_text(mixed.param_dtype)).param_dtype =
      mixed.param_dtype ? std::nullopt : std::optional(DType::kBFloat16);
  with("reduce_dtype == " + dtype_text(mixed.reduce_dtype)).reduce_dtype =
      mixed.reduce_dtype ? std::nullopt : std::optional(DType::kFloat32);
  const DType dtype = at(c, ref).dtype;
  const DType other = dtype == DType::kFloat32 ? DType::kBFloat16 : DType::kFloat32;
  switches->push_back({fmt::format("dtype == {}", name_of(dtype)), c});
  for (const ParamRef tied : tied_with(c, ref)) at(&switches->back().without, tied).dtype = other;
}

void add_schedule(const Case& c, Switches* switches) {
  const bool is_late = c.schedule.delivery == Delivery::kLate;
  switches->push_back({fmt::format("delivery == {}", name_of(c.schedule.delivery)), c});
  switches->back().without.schedule.delivery = is_late ? Delivery::kEarly : Delivery::kLate;
  if (c.schedule.policy != SchedulePolicy::kRoundRobin) {
    switches->push_back({fmt::format("schedule == {}", name_of(c.schedule.policy)), c});
    switches->back().without.schedule.policy = SchedulePolicy::kRoundRobin;
  }
}

void add_nesting(const Case& c, ParamRef ref, Switches* switches) {
  if (ref.group == 0) return;
  switches->push_back({"a nested group", c});
  merge_into_root(&switches->back().without, ref.group, Settings::kOfGroup);
}

}  // namespace

std::vector<Switch> switches_for(const Case& c, ParamRef ref) {
  Switches switches;
  add_nesting(c, ref, &switches);
  add_steps(c, &switches);
  add_reshard(c, ref.group, &switches);
  add_operations(c, &switches);
  add_dtypes(c, ref, &switches);
  add_schedule(c, &switches);
  return switches;
}

}  // namespace shardfuzz
