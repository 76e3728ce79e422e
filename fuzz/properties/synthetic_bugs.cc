#include "fuzz/properties/synthetic_bugs.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/case/case_names.h"

namespace shardfuzz {
namespace {

template <typename Holds>
Condition on_case(std::string text, Holds holds) {
  return {std::move(text), [holds](const Case& c, const Suspects&) { return holds(c); }};
}

// True where it is for some suspect.
template <typename Holds>
Condition on_param(std::string text, Holds holds) {
  return {std::move(text),
          [holds](const Case& c, const Suspects& suspects) {
            return std::any_of(suspects.begin(), suspects.end(),
                               [&](const ParamRef& ref) { return holds(c, ref); });
          },
          /*is_of_one_param=*/true};
}

bool is_uneven(const Case& c, const ParamRef& ref) {
  return rows_of(at(c, ref)) % c.mesh.shard_size() != 0;
}

// One value of one field, far from all others.
std::vector<Condition> on_single_fields() {
  const auto group_of = [](const Case& c, const ParamRef& ref) { return c.groups[ref.group]; };
  return {
      on_case("late delivery",
              [](const Case& c) { return c.schedule.delivery == Delivery::kLate; }),
      on_case("momentum",
              [](const Case& c) { return c.optimizer.kind == OptimizerKind::kSgdMomentum; }),
      on_case("random schedule",
              [](const Case& c) { return c.schedule.policy == SchedulePolicy::kRandom; }),
      on_case("normal data", [](const Case& c) { return c.batch.values == DataKind::kNormal; }),
      on_case("two mesh dims", [](const Case& c) { return c.mesh.shape.size() == 2; }),
      on_case("top_k >= 2", [](const Case& c) { return c.batch.top_k >= 2; }),
      on_case("an empty expert", [](const Case& c) { return !c.batch.empty_experts.empty(); }),
      on_case("compared meshes", [](const Case& c) { return !c.compare_meshes.empty(); }),
      on_param("nested", [](const Case&, const ParamRef& ref) { return ref.group > 0; }),
      on_param("frozen",
               [](const Case& c, const ParamRef& ref) { return !at(c, ref).requires_grad; }),
      on_param("bf16", [](const Case& c,
                          const ParamRef& ref) { return at(c, ref).dtype == DType::kBFloat16; }),
      on_param("columns sharded",
               [](const Case& c, const ParamRef& ref) { return at(c, ref).shard_dim == 1; }),
      on_param("a reshard policy",
               [=](const Case& c, const ParamRef& ref) {
                 return group_of(c, ref).reshard_after_forward.index() != 0;
               }),
      on_param("bf16 reductions",
               [=](const Case& c, const ParamRef& ref) {
                 return group_of(c, ref).mixed_precision.reduce_dtype == DType::kBFloat16;
               }),
      on_param("a rank without the module",
               [=](const Case& c, const ParamRef& ref) {
                 return !group_of(c, ref).unused_on_ranks.empty();
               }),
      on_param("offload",
               [=](const Case& c, const ParamRef& ref) { return group_of(c, ref).offload_to_cpu; }),
  };
}

}  // namespace

Condition at_least_ranks(int count) {
  return on_case(fmt::format("world >= {}", count),
                 [count](const Case& c) { return c.mesh.world_size() >= count; });
}

Condition at_least_steps(int count) {
  return on_case(fmt::format("steps >= {}", count),
                 [count](const Case& c) { return c.steps >= count; });
}

Condition at_least_params(int count) {
  return {fmt::format("params >= {}", count), [count](const Case&, const Suspects& suspects) {
            return static_cast<int>(suspects.size()) >= count;
          }};
}

Condition some_rows_uneven() { return on_param("rows % ranks != 0", is_uneven); }

Condition some_rank_empty() {
  return on_param("rows < ranks", [](const Case& c, const ParamRef& ref) {
    return rows_of(at(c, ref)) < c.mesh.shard_size();
  });
}

Condition has_operation(OpKind kind) {
  return on_case(fmt::format("has {}", name_of(kind)), [kind](const Case& c) {
    const std::vector<Operation> operations = operations_of(c);
    return std::any_of(operations.begin(), operations.end(),
                       [&](const Operation& op) { return op.kind == kind; });
  });
}

std::vector<Condition> conditions_of(const Case& c, const Suspects& suspects) {
  std::vector<Condition> all = on_single_fields();
  for (const int count : {2, 3, 4}) all.push_back(at_least_ranks(count));
  for (const int count : {2, 3}) all.push_back(at_least_steps(count));
  all.push_back(at_least_params(2));
  all.push_back(some_rows_uneven());
  all.push_back(some_rank_empty());
  for (const OpKind kind : all_of<OpKind>()) all.push_back(has_operation(kind));
  std::erase_if(all, [&](const Condition& condition) { return !condition.holds(c, suspects); });
  return all;
}

Suspects SyntheticBug::suspects(const Case& c) const {
  Suspects found;
  for (const ParamRef& ref : params_of(c)) {
    if (at(c, ref).pack == pack && at(c, ref).hook == hook) found.push_back(ref);
  }
  return found;
}

bool SyntheticBug::shows(const Case& c) const {
  const Suspects found = suspects(c);
  return !found.empty() &&
         std::all_of(conditions.begin(), conditions.end(),
                     [&](const Condition& condition) { return condition.holds(c, found); });
}

Verdict SyntheticBug::operator()(const Case& c) const {
  Verdict verdict{.kind = VerdictKind::kPass};
  if (!shows(c)) return verdict;
  verdict.kind = VerdictKind::kFail;
  verdict.signature = kBugSignature;
  // As a real run does, it names the parameter whose shards differ, if there is one.
  const Suspects all = suspects(c);
  const auto uneven =
      std::find_if(all.begin(), all.end(), [&](const ParamRef& ref) { return is_uneven(c, ref); });
  const ParamRef named = uneven == all.end() ? all.front() : *uneven;
  verdict.findings.push_back(
      {.property = "P1", .group = c.groups[named.group].name, .param = at(c, named).name});
  return verdict;
}

std::string SyntheticBug::text() const {
  std::string all = pack + ":" + hook;
  for (const Condition& condition : conditions) all += ", " + condition.text;
  return all;
}

}  // namespace shardfuzz
