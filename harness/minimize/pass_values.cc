// Passes that keep the structure of a case and make its values simpler.
#include <algorithm>
#include <numeric>
#include <utility>

#include "harness/case/case_names.h"
#include "harness/minimize/case_size.h"
#include "harness/minimize/detail/pass_parts.h"

namespace shardfuzz::detail {
namespace {

// A candidate without each chunk of the list, then (if asked) nothing else: lists here are short.
void propose_without(const Case& c, const std::function<std::vector<int>*(Case*)>& list_of,
                     Proposals* proposals) {
  Case copy = c;
  const std::vector<int> all = *list_of(&copy);
  for (const Chunk chunk : chunks_of(all.size())) {
    proposals->push_back(c);
    std::vector<int>* list = list_of(&proposals->back());
    list->erase(list->begin() + static_cast<std::ptrdiff_t>(chunk.first),
                list->begin() + static_cast<std::ptrdiff_t>(chunk.last));
  }
}

// Lists with one entry a rank keep their length; their entries go to the value that means nothing.
void propose_entries_at(std::int64_t floor, const Case& c,
                        const std::function<std::vector<int>*(Case*)>& list_of,
                        Proposals* proposals) {
  Case copy = c;
  const std::vector<int> all = *list_of(&copy);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<std::int64_t> values = toward(floor, all[i]);
    if (all[i] < floor) values.push_back(floor);
    for (const std::int64_t value : values) {
      proposals->push_back(c);
      (*list_of(&proposals->back()))[i] = static_cast<int>(value);
    }
  }
}

// As many ranks or experts, but the first ones: then there may be fewer of them in the case.
void propose_first_ones(const Case& c, const std::function<std::vector<int>*(Case*)>& list_of,
                        Proposals* proposals) {
  proposals->push_back(c);
  std::vector<int>* list = list_of(&proposals->back());
  std::iota(list->begin(), list->end(), 0);
  propose_entries_at(0, c, list_of, proposals);
}

// A number that the resets could not take to its floor, which may lie on either side.
template <typename Number>
void propose_number(const Case& c, std::int64_t floor, const std::function<Number*(Case*)>& of,
                    Proposals* proposals) {
  Case copy = c;
  const auto now = static_cast<std::int64_t>(*of(&copy));
  const std::int64_t sign = now < floor ? -1 : 1;
  for (const std::int64_t above : toward(0, sign * (now - floor))) {
    proposals->push_back(c);
    *of(&proposals->back()) = static_cast<Number>(floor + sign * above);
  }
}

}  // namespace

// Delta debugging over the fields that are not at their simplest value: all at once, then halves,
// and so on, so that one field that matters among many is found in logarithmically many steps.
Proposals propose_resets(const Case& c, const Focus&) {
  Proposals proposals;
  const std::vector<Reset> resets = resets_for(c);
  for (const Chunk chunk : chunks_of(resets.size())) {
    proposals.push_back(c);
    for (std::size_t i = chunk.first; i < chunk.last; ++i) resets[i].apply(&proposals.back());
  }
  return proposals;
}

Proposals propose_rows(const Case& c, const Focus&) {
  Proposals proposals;
  const std::vector<ParamRef> refs = params_of(c);
  for (const std::int64_t rows : {1, 2, 3}) {
    proposals.push_back(c);
    for (const ParamRef ref : refs) {
      if (rows_of(at(c, ref)) > rows) set_rows(&proposals.back(), ref, rows);
    }
  }
  for (const ParamRef ref : refs) {
    const ParamSpec& param = at(c, ref);
    const std::int64_t step = param.shard_dim == 0 ? 1 : dim_step(param);
    for (const std::int64_t rows : toward(step, rows_of(param), step)) {
      proposals.push_back(c);
      set_rows(&proposals.back(), ref, rows);
    }
  }
  return proposals;
}

Proposals propose_dims(const Case& c, const Focus&) {
  Proposals proposals;
  const std::vector<ParamRef> refs = params_of(c);
  proposals.push_back(c);
  for (const ParamRef ref : refs) floor_dims(&proposals.back(), ref);
  for (const ParamRef ref : refs) {
    const ParamSpec& param = at(c, ref);
    proposals.push_back(c);
    floor_dims(&proposals.back(), ref);
    std::vector<std::int64_t> flatter = param.shape;
    // Only a call that takes any shape can do with fewer dims.
    while (dims_of_call(param.call) == 0 &&
           flatter.size() > static_cast<std::size_t>(param.shard_dim) + 1) {
      flatter.pop_back();
      proposals.push_back(c);
      set_shape(&proposals.back(), ref, flatter);
    }
    for (std::size_t dim = 0; dim < param.shape.size(); ++dim) {
      if (static_cast<int>(dim) == param.shard_dim) continue;
      const std::int64_t step = dim == 0 ? 1 : dim_step(param);
      for (const std::int64_t size : toward(step, param.shape[dim], step)) {
        std::vector<std::int64_t> shape = param.shape;
        shape[dim] = size;
        proposals.push_back(c);
        set_shape(&proposals.back(), ref, shape);
      }
    }
  }
  return proposals;
}

Proposals propose_list_entries(const Case& c, const Focus&) {
  Proposals proposals;
  for (std::size_t g = 0; g < c.groups.size(); ++g) {
    const auto unused_on_ranks = [g](Case* to) { return &to->groups[g].unused_on_ranks; };
    propose_without(c, unused_on_ranks, &proposals);
    propose_first_ones(c, unused_on_ranks, &proposals);
  }
  const auto empty_experts = [](Case* to) { return &to->batch.empty_experts; };
  propose_without(c, empty_experts, &proposals);
  propose_first_ones(c, empty_experts, &proposals);
  propose_entries_at(
      1, c, [](Case* to) { return &to->batch.tokens_by_rank; }, &proposals);
  propose_entries_at(
      0, c, [](Case* to) { return &to->schedule.delays; }, &proposals);
  for (const Chunk chunk : chunks_of(c.compare_meshes.size())) {
    proposals.push_back(c);
    auto& meshes = proposals.back().compare_meshes;
    meshes.erase(meshes.begin() + static_cast<std::ptrdiff_t>(chunk.first),
                 meshes.begin() + static_cast<std::ptrdiff_t>(chunk.last));
  }
  for (std::size_t i = 0; i < c.compare_meshes.size(); ++i) {
    proposals.push_back(c);
    proposals.back().compare_meshes[i] = {c.compare_meshes[i].back()};
    propose_entries_at(
        1, c, [i](Case* to) { return &to->compare_meshes[i]; }, &proposals);
  }
  return proposals;
}

Proposals propose_small_numbers(const Case& c, const Focus&) {
  Proposals proposals;
  propose_number<int>(
      c, fewest_tokens(c), [](Case* to) { return &to->batch.tokens_per_expert; }, &proposals);
  propose_number<int>(
      c, 1, [](Case* to) { return &to->batch.top_k; }, &proposals);
  propose_number<int>(
      c, 0, [](Case* to) { return &to->schedule.change_points; }, &proposals);
  propose_number<int>(
      c, Optimizer{}.lr_log2, [](Case* to) { return &to->optimizer.lr_log2; }, &proposals);
  // Among seeds there is no middle, but a small one is easier to read.
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    proposals.push_back(c);
    proposals.back().seed = seed;
  }
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    proposals.push_back(c);
    proposals.back().schedule.seed = seed;
  }
  return proposals;
}

// The second simplest value of fields that did not take the simplest.
Proposals propose_other_values(const Case& c, const Focus&) {
  Proposals proposals;
  // The reset of shard_dim moves the rows along, which may make dim 0 invalid or too large.
  for (const ParamRef ref : params_of(c)) {
    proposals.push_back(c);
    for (const ParamRef tied : tied_with(c, ref)) at(&proposals.back(), tied).shard_dim = 0;
  }
  for (std::size_t g = 0; g < c.groups.size(); ++g) {
    const GroupSpec& group = c.groups[g];
    if (group.reshard_after_forward.index() != 0) {
      for (const bool reshard : {true, false}) {
        proposals.push_back(c);
        proposals.back().groups[g].reshard_after_forward = reshard;
      }
    }
    if (group.mixed_precision.param_dtype) {
      proposals.push_back(c);
      proposals.back().groups[g].mixed_precision.param_dtype = DType::kBFloat16;
    }
  }
  return proposals;
}

// Flags to what they are anyway; operations on any parameter to the first one, and those that stand
// in no order that matters to one order.
Proposals propose_operation_values(const Case& c, const Focus&) {
  Proposals proposals;
  for (std::size_t i = 0; i < c.operations.size(); ++i) {
    const OpKind kind = c.operations[i].kind;
    if (arguments_of(kind).flag) {
      proposals.push_back(c);
      proposals.back().operations[i].flag = simplest_flag(kind);
    }
    if (find_param(c, c.operations[i].group, c.operations[i].param)) {
      const ParamRef first = params_of(c).front();
      proposals.push_back(c);
      proposals.back().operations[i].group = c.groups[first.group].name;
      proposals.back().operations[i].param = at(c, first).name;
    }
    if (i > 0 && c.operations[i - 1].kind > kind) {
      proposals.push_back(c);
      std::swap(proposals.back().operations[i - 1], proposals.back().operations[i]);
    }
  }
  return proposals;
}

Proposals propose_names(const Case& c, const Focus&) {
  Proposals proposals{c};
  use_canonical_names(&proposals.back());
  return proposals;
}

}  // namespace shardfuzz::detail
