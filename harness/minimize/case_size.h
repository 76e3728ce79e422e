// CaseSize: how much there is to understand in a case.
//
// Guarantees: a total order that is well founded (every part is a natural number), so a search that
// only ever takes smaller cases ends. The parts are compared in the order in which they are
// declared: what costs a reader most comes first. Names, origin, environment and history of the
// file count nothing, since a run does not depend on them. Use:  if (size_of(candidate) <
// size_of(smallest)) ...
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

#include "harness/case/case.h"

namespace shardfuzz {

struct CaseSize {
  std::int64_t ranks = 0;
  std::int64_t mesh_dims = 0;
  std::int64_t groups = 0;
  std::int64_t params = 0;
  std::int64_t operations_run = 0;      // of one step, times the steps
  std::int64_t operations_written = 0;  // so [forward] twice is smaller than [forward, forward]
  std::int64_t nested_params = 0;       // not in the root
  std::int64_t unusual_uses = 0;        // not called in the pack's first way; not sharded on dim 0
  std::int64_t shape_dims = 0;
  std::int64_t elements = 0;
  std::int64_t rows_off_floor = 0;  // how far tokens_per_expert and top_k are from the least
  std::int64_t list_entries = 0;    // of all lists with one entry a rank or an expert
  std::int64_t unusual_fields = 0;  // fields that differ from the simplest value they can have
  std::int64_t distance = 0;        // how far the numbers of those fields are from it
  std::int64_t disorder = 0;        // pairs of operations that are not in the order of OpKind
  std::int64_t unusual_names = 0;
  auto operator<=>(const CaseSize&) const = default;
};

CaseSize size_of(const Case& c);

// The simplest values that a pack permits; the reset passes go there and CaseSize counts what
// differs.
DType simplest_dtype(const ParamSpec& param);
CallPath simplest_call(const ParamSpec& param);
std::optional<DType> simplest_param_dtype(const GroupSpec& group);
bool simplest_flag(OpKind kind);  // what FSDP2 does where the operation is left out
// Every dim of the parameter but dim 0 is a multiple of this.
std::int64_t dim_step(const ParamSpec& param);
// The fewest rows an expert can get such that every pack can compute with them.
int fewest_tokens(const Case& c);
// How many dims a call needs; 0: any number.
std::size_t dims_of_call(CallPath call);

}  // namespace shardfuzz
