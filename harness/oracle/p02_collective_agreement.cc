// P2: at each collective all ranks of the group bring the same kind, count, dtype, root and
// reduction.
//
// Ranks pair by order (hub.h, H1). A collective of count 0 is paired here too, though NCCL drops
// it: a rank that brings nothing where others bring something is the disagreement that a hang comes
// from.
#include <fmt/ranges.h>

#include <map>
#include <tuple>
#include <utility>

#include "harness/oracle/properties.h"

namespace shardfuzz {
namespace {

struct Brought {
  Call call;
  const Event* event;
};

// In program order: what the meeting spoils shows from the first of its launches on, which need not
// be that of the rank that is odd.
bool earlier(const Event& a, const Event& b) {
  return std::tie(a.step, a.operation) < std::tie(b.step, b.operation);
}

bool same(const Call& a, const Call& b) {
  return a.kind == b.kind && a.count == b.count && a.dtype == b.dtype && a.root == b.root &&
         a.reduce == b.reduce;
}

std::string call_text(const Call& call) {
  return fmt::format("{} of {} bytes ({} x {}{}{})", call.kind, call.bytes, call.count, call.dtype,
                     call.reduce.empty() ? "" : ", ", call.reduce);
}

using ByRank = std::map<int, std::vector<Brought>>;

// The first place at which the members of a group disagree, if any.
void compare(const std::string& group, const ByRank& by_rank, Findings* findings) {
  std::size_t shortest = SIZE_MAX;
  for (const auto& [rank, calls] : by_rank) shortest = std::min(shortest, calls.size());
  for (std::size_t i = 0; i < shortest; ++i) {
    const Brought& first = by_rank.begin()->second[i];
    const Brought* odd = nullptr;
    std::vector<std::string> texts;
    for (const auto& [rank, calls] : by_rank) {
      texts.push_back(fmt::format("rank {} {}", rank, call_text(calls[i].call)));
      if (odd == nullptr && !same(first.call, calls[i].call)) odd = &calls[i];
    }
    if (odd == nullptr) continue;
    const Event* place = odd->event;
    for (const auto& [rank, calls] : by_rank) {
      if (earlier(*calls[i].event, *place)) place = calls[i].event;
    }
    findings->push_back(
        {.property = "P2",
         .rank = odd->call.rank,
         .phase = place->phase,
         .step = place->step,
         .sentence = fmt::format("the ranks of group {} disagree on collective {}: {}", group, i,
                                 fmt::join(texts, ", ")),
         .event = place->index});
    return;
  }
}

}  // namespace

void check_collective_agreement(const Expected&, const Trace& trace, Findings* findings) {
  std::map<std::pair<std::string, std::vector<int>>, ByRank> groups;
  for_each<Launch>(trace, [&](const Event& event, const Launch& launch) {
    ByRank& by_rank = groups[{launch.process_group, launch.members}];
    for (const int member : launch.members) by_rank[member];
    by_rank[event.rank].push_back({launch.call, &event});
  });
  for (const auto& [key, by_rank] : groups) compare(key.first, by_rank, findings);
}

}  // namespace shardfuzz
