// P9: number, order and bytes of the collectives equal what the rule book lists before the run.
//
// Judged rank by rank and operation by operation, up to the first operation that the rule book does
// not predict, and only where no rank raised (P1 to P3 speak then).
#include <fmt/ranges.h>

#include <map>
#include <string>
#include <vector>

#include "harness/case/case_names.h"
#include "harness/oracle/properties.h"

namespace shardfuzz {
namespace {

struct Seen {
  std::string process_group, kind;
  std::int64_t bytes;
  const Event* event;
};

std::string text_of(const std::string& process_group, const std::string& kind, std::int64_t bytes) {
  return fmt::format("{} of {} bytes on {}", kind, bytes, process_group);
}

// The launches of one rank during each forward and backward, in program order.
std::vector<std::vector<Seen>> launches_of(const Trace& trace, int rank, const Expected& expected) {
  std::vector<std::vector<Seen>> by_operation(expected.life().operations.size());
  for (const Event& event : trace.events) {
    const auto* launch = std::get_if<Launch>(&event.payload);
    if (launch == nullptr || event.rank != rank || launch->call.count == 0) continue;
    const std::int64_t operation = operation_of(expected, event);
    if (operation < 0) continue;
    by_operation[static_cast<std::size_t>(operation)].push_back(
        {launch->process_group, launch->call.kind, launch->call.bytes, &event});
  }
  return by_operation;
}

bool judged(OpKind kind) { return kind != OpKind::kFullTensor && kind != OpKind::kLoad; }

void check_rank(const Expected& expected, const Trace& trace, int rank, Findings* findings) {
  const auto seen = launches_of(trace, rank, expected);
  const auto& life = expected.life().operations;
  for (std::size_t i = 0; i < life.size() && life[i].predicted; ++i) {
    if (!judged(expected.operations()[i % expected.operations_per_step()].kind)) continue;
    const auto& want = life[i].collectives;
    const auto& got = seen[i];
    for (std::size_t k = 0; k < std::max(want.size(), got.size()); ++k) {
      const bool both = k < want.size() && k < got.size();
      if (both && want[k].process_group == got[k].process_group && want[k].kind == got[k].kind &&
          want[k].bytes == got[k].bytes) {
        continue;
      }
      const std::string wanted =
          k < want.size() ? text_of(want[k].process_group, want[k].kind, want[k].bytes) : "nothing";
      const std::string found =
          k < got.size() ? text_of(got[k].process_group, got[k].kind, got[k].bytes) : "nothing";
      const std::size_t group = k < want.size() ? static_cast<std::size_t>(want[k].group) : 0;
      findings->push_back(
          {.property = "P9",
           .rank = rank,
           .group = k < want.size() ? expected.the_case().groups[group].name : "",
           .phase =
               std::string(name_of(expected.operations()[i % expected.operations_per_step()].kind)),
           .step = static_cast<int>(i / expected.operations_per_step()),
           .sentence = fmt::format("collective {} of rank {} in this operation is {} instead of {}",
                                   k, rank, found, wanted),
           .event = k < got.size() ? got[k].event->index : -1});
      return;
    }
  }
}

}  // namespace

void check_ledger(const Expected& expected, const Trace& trace, Findings* findings) {
  if (!follows_life(expected, trace)) return;
  for (int rank = 0; rank < trace.world_size; ++rank) check_rank(expected, trace, rank, findings);
}

}  // namespace shardfuzz
