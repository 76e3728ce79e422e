// The passes by name, and what they share. For passes.cc and its two halves only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/case/case.h"
#include "harness/minimize/edits.h"
#include "harness/minimize/passes.h"

namespace shardfuzz::detail {

using Proposals = std::vector<Case>;

// Values below `value`, most aggressive first: floor, floor + step, floor + 2 step, the middle,
// three quarters, value - step. All differ from the floor by multiples of step and none repeats.
std::vector<std::int64_t> toward(std::int64_t floor, std::int64_t value, std::int64_t step = 1);

struct Chunk {
  std::size_t first = 0, last = 0;  // [first, last)
};
// Everything, then halves, quarters, ..., single elements.
std::vector<Chunk> chunks_of(std::size_t count);

// One field (or a few that belong together) taken to its simplest value.
struct Reset {
  std::string name;
  std::function<void(Case*)> apply;
};
// The resets that would change the case.
std::vector<Reset> resets_for(const Case& c);

// The focus parameter, or the first one; none only in a case without parameters.
std::vector<ParamRef> focused(const Case& c, const Focus& focus);
// Every dim but the one that is sharded taken to the least the pack permits.
void floor_dims(Case* c, ParamRef ref);

// pass_structure.cc
Proposals propose_skeleton(const Case& c, const Focus& focus);
Proposals propose_mesh(const Case& c, const Focus& focus);
Proposals propose_steps(const Case& c, const Focus& focus);
Proposals propose_one_param(const Case& c, const Focus& focus);
Proposals propose_fewer_groups(const Case& c, const Focus& focus);
Proposals propose_fewer_params(const Case& c, const Focus& focus);
Proposals propose_into_root(const Case& c, const Focus& focus);
Proposals propose_operations(const Case& c, const Focus& focus);
// pass_values.cc
Proposals propose_resets(const Case& c, const Focus& focus);
Proposals propose_rows(const Case& c, const Focus& focus);
Proposals propose_dims(const Case& c, const Focus& focus);
Proposals propose_list_entries(const Case& c, const Focus& focus);
Proposals propose_small_numbers(const Case& c, const Focus& focus);
Proposals propose_other_values(const Case& c, const Focus& focus);
Proposals propose_operation_values(const Case& c, const Focus& focus);
Proposals propose_names(const Case& c, const Focus& focus);

}  // namespace shardfuzz::detail
