// The resets: one for each field of a case that has a simplest value.
#include <utility>

#include "harness/minimize/case_size.h"
#include "harness/minimize/detail/pass_parts.h"

namespace shardfuzz::detail {
namespace {

// The call decides how many dims a parameter has; those that are missing get the least size.
std::vector<std::int64_t> shape_for_call(const ParamSpec& param, CallPath call) {
  std::vector<std::int64_t> shape = param.shape;
  if (const std::size_t dims = dims_of_call(call); dims != 0) shape.resize(dims, dim_step(param));
  return shape;
}

// The number of rows moves along, since how it stands to the ranks is what a failure depends on.
void shard_dim_0(ParamSpec* param) {
  const auto dim = static_cast<std::size_t>(param->shard_dim);
  if (dim == 0 || dim >= param->shape.size()) return;
  const std::int64_t step = dim_step(*param);
  std::swap(param->shape[0], param->shape[dim]);
  param->shape[dim] = (param->shape[dim] + step - 1) / step * step;
  param->shard_dim = 0;
}

// Resets address groups and parameters by index, so they stay right when several are applied.
void add_group_resets(std::size_t g, std::vector<Reset>* resets) {
  const auto add = [&](const char* name, void (*set)(GroupSpec*)) {
    resets->push_back({name, [g, set](Case* c) { set(&c->groups[g]); }});
  };
  add("reshard_after_forward",
      [](GroupSpec* group) { group->reshard_after_forward = std::monostate{}; });
  add("param_dtype",
      [](GroupSpec* group) { group->mixed_precision.param_dtype = simplest_param_dtype(*group); });
  add("reduce_dtype", [](GroupSpec* group) { group->mixed_precision.reduce_dtype.reset(); });
  add("output_dtype", [](GroupSpec* group) { group->mixed_precision.output_dtype.reset(); });
  add("cast_forward_inputs",
      [](GroupSpec* group) { group->mixed_precision.cast_forward_inputs = true; });
  add("offload_to_cpu", [](GroupSpec* group) { group->offload_to_cpu = false; });
  add("unused_on_ranks", [](GroupSpec* group) { group->unused_on_ranks.clear(); });
}

void add_param_resets(ParamRef ref, std::vector<Reset>* resets) {
  resets->push_back({"tied_to", [ref](Case* c) { at(c, ref).tied_to.clear(); }});
  resets->push_back(
      {"tensor_parallel_dim", [ref](Case* c) { at(c, ref).tensor_parallel_dim.reset(); }});
  resets->push_back({"call", [ref](Case* c) {
                       const CallPath call = simplest_call(at(*c, ref));
                       set_shape(c, ref, shape_for_call(at(*c, ref), call));
                       at(c, ref).call = call;
                     }});
  const auto add_for_tied = [&](const char* name, void (*set)(ParamSpec*)) {
    resets->push_back({name, [ref, set](Case* c) {
                         for (const ParamRef tied : tied_with(*c, ref)) set(&at(c, tied));
                       }});
  };
  add_for_tied("dtype", [](ParamSpec* param) { param->dtype = simplest_dtype(*param); });
  add_for_tied("shard_dim", shard_dim_0);
  add_for_tied("requires_grad", [](ParamSpec* param) { param->requires_grad = true; });
}

void add_case_resets(std::vector<Reset>* resets) {
  const auto add = [&](const char* name, void (*set)(Case*)) { resets->push_back({name, set}); };
  add("tokens_by_rank", [](Case* c) { c->batch.tokens_by_rank.clear(); });
  add("empty_experts", [](Case* c) { c->batch.empty_experts.clear(); });
  add("tokens_per_expert", [](Case* c) { c->batch.tokens_per_expert = fewest_tokens(*c); });
  add("top_k", [](Case* c) { c->batch.top_k = 1; });
  add("same_on_all_ranks", [](Case* c) { c->batch.same_on_all_ranks = false; });
  add("values", [](Case* c) { c->batch.values = DataKind::kInteger; });
  add("optimizer", [](Case* c) { c->optimizer.kind = OptimizerKind::kSgd; });
  add("lr_log2", [](Case* c) { c->optimizer.lr_log2 = Optimizer{}.lr_log2; });
  add("compare_meshes", [](Case* c) { c->compare_meshes.clear(); });
  add("seed", [](Case* c) { c->seed = 0; });
  add("schedule.policy", [](Case* c) { c->schedule.policy = SchedulePolicy::kRoundRobin; });
  add("schedule.seed", [](Case* c) { c->schedule.seed = 0; });
  add("schedule.change_points", [](Case* c) { c->schedule.change_points = 0; });
  add("schedule.delivery", [](Case* c) { c->schedule.delivery = Delivery::kEarly; });
  add("schedule.delays", [](Case* c) { c->schedule.delays.clear(); });
}

}  // namespace

std::vector<Reset> resets_for(const Case& c) {
  std::vector<Reset> all;
  for (std::size_t g = 0; g < c.groups.size(); ++g) add_group_resets(g, &all);
  for (const ParamRef ref : params_of(c)) add_param_resets(ref, &all);
  add_case_resets(&all);
  std::vector<Reset> active;
  for (Reset& reset : all) {
    Case changed = c;
    reset.apply(&changed);
    if (!(changed == c)) active.push_back(std::move(reset));
  }
  return active;
}

}  // namespace shardfuzz::detail
