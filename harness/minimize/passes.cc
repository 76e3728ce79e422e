#include "harness/minimize/passes.h"

#include <algorithm>

#include "harness/base/check.h"
#include "harness/minimize/case_size.h"
#include "harness/minimize/detail/pass_parts.h"

namespace shardfuzz {

// An evaluation costs about as much as it has ranks and steps, so these come before all that keeps
// them; the skeleton is a guess which, where it holds, saves nearly everything else.
const std::vector<Pass>& all_passes() {
  static const std::vector<Pass> passes = {
      {"skeleton", detail::propose_skeleton},
      {"mesh", detail::propose_mesh},
      {"steps", detail::propose_steps},
      {"one_param", detail::propose_one_param},
      {"fewer_groups", detail::propose_fewer_groups},
      {"fewer_params", detail::propose_fewer_params},
      {"into_root", detail::propose_into_root},
      {"resets", detail::propose_resets},
      {"operations", detail::propose_operations},
      {"rows", detail::propose_rows},
      {"dims", detail::propose_dims},
      {"list_entries", detail::propose_list_entries},
      {"small_numbers", detail::propose_small_numbers},
      {"other_values", detail::propose_other_values},
      {"operation_values", detail::propose_operation_values},
      {"names", detail::propose_names},
  };
  return passes;
}

namespace detail {

std::vector<std::int64_t> toward(std::int64_t floor, std::int64_t value, std::int64_t step) {
  SHARDFUZZ_CHECK(step >= 1, "a step of {} leads nowhere", step);
  std::vector<std::int64_t> values;
  if (value <= floor) return values;
  const auto add = [&](std::int64_t steps_up) {
    const std::int64_t next = floor + steps_up * step;
    const bool is_new = std::find(values.begin(), values.end(), next) == values.end();
    if (steps_up >= 0 && next < value && is_new) values.push_back(next);
  };
  const std::int64_t steps_to_value = (value - floor + step - 1) / step;
  for (const std::int64_t steps_up :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, steps_to_value / 2,
        steps_to_value * 3 / 4, steps_to_value - 1}) {
    add(steps_up);
  }
  return values;
}

std::vector<Chunk> chunks_of(std::size_t count) {
  std::vector<Chunk> chunks;
  for (std::size_t length = count; length >= 1; length = length == 1 ? 0 : (length + 1) / 2) {
    for (std::size_t first = 0; first < count; first += length) {
      chunks.push_back({first, std::min(count, first + length)});
    }
  }
  return chunks;
}

std::vector<ParamRef> focused(const Case& c, const Focus& focus) {
  if (const auto found = find_param(c, focus.group, focus.param)) return {*found};
  const std::vector<ParamRef> refs = params_of(c);
  return refs.empty() ? refs : std::vector<ParamRef>{refs.front()};
}

void floor_dims(Case* c, ParamRef ref) {
  std::vector<std::int64_t> shape = at(*c, ref).shape;
  const std::int64_t step = dim_step(at(*c, ref));
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (static_cast<int>(dim) == at(*c, ref).shard_dim) continue;
    shape[dim] = dim == 0 ? 1 : step;
  }
  set_shape(c, ref, shape);
}

}  // namespace detail
}  // namespace shardfuzz
