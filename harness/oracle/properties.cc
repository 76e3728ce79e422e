#include "harness/oracle/properties.h"

#include <fmt/ranges.h>

namespace shardfuzz {

const std::vector<Property>& all_properties() {
  static const std::vector<Property> properties{
      {"P1", "what the pre-all-gather hook sends is what the pack declares", check_shape_contract},
      {"P2", "all ranks of a group bring the same collective", check_collective_agreement},
      {"P3", "all ranks raise or none does", check_no_divergence},
      {"P4", "every view fits its storage, and as much is held as the policy says", check_storage},
      {"P5", "what was gathered equals the shards, bit for bit", check_bytes},
      {"P6", "outputs, gradients and updates equal the plain module's", check_reference},
      {"P7", "types, dtypes and requires_grad are kept", check_kept_types},
      {"P9", "the collectives are those that the rule book lists", check_ledger},
      {"P10", "no buffer outlives its phase, and the peak is the rule book's", check_memory},
  };
  return properties;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

bool has_real_exception(const Trace& trace) {
  bool found = false;
  for_each<Raised>(trace, [&](const Event&, const Raised& raised) { found |= !raised.by_harness; });
  return found;
}

bool follows_life(const Expected& expected, const Trace& trace) {
  for (const GroupSpec& group : expected.the_case().groups) {
    if (!group.unused_on_ranks.empty()) return false;  // ranks differ by design: P2 and P3 judge
  }
  if (has_real_exception(trace)) return false;
  bool stuck = false;
  for_each<Stuck>(trace, [&](const Event&, const Stuck&) { stuck = true; });
  return !stuck;
}

std::int64_t operation_of(const Expected& expected, const Event& event) {
  if (event.step < 0 || event.operation < 0) return -1;
  const std::int64_t operation =
      event.step * static_cast<std::int64_t>(expected.operations_per_step()) + event.operation;
  return operation < static_cast<std::int64_t>(expected.life().operations.size()) ? operation : -1;
}

}  // namespace shardfuzz
