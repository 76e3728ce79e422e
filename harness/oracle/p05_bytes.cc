// P5: what was gathered equals the shards bit for bit, and no tagged NaN (padding) is in it.
#include <fmt/format.h>

#include <map>
#include <string>

#include "harness/oracle/properties.h"

namespace shardfuzz {
namespace {

// The rows that each shard rank last sent for a parameter, by (path, replica, shard rank).
using Sent = std::map<std::tuple<std::string, int, int>, std::string>;

void check_sent(const Event& event, const PreAllGather& sent, Findings* findings) {
  if (sent.local_digest.empty() || sent.rows_digest.empty()) return;
  if (sent.local_digest == sent.rows_digest) return;
  findings->push_back({.property = "P5",
                       .rank = event.rank,
                       .group = sent.group,
                       .param = sent.param,
                       .phase = event.phase,
                       .step = event.step,
                       .sentence = fmt::format("rank {} sends other bytes for {} than its shard holds",
                                               event.rank, path_of(sent.group, sent.param)),
                       .event = event.index});
}

void check_gathered(const Expected& expected, const Event& event, const Unsharded& view,
                    const Sent& sent, Findings* findings) {
  const std::string path = path_of(view.group, view.param);
  Finding finding{.property = "P5", .rank = event.rank, .group = view.group, .param = view.param,
                  .phase = event.phase, .step = event.step, .event = event.index};
  if (view.tags > 0) {
    finding.sentence = fmt::format("{} elements of the unsharded {} on rank {} are padding (NaN)",
                                   view.tags, path, event.rank);
    findings->push_back(finding);
    return;
  }
  const int replica = event.rank / expected.the_case().mesh.shard_size();
  for (std::size_t rank = 0; rank < view.slots.size(); ++rank) {
    const auto found = sent.find({path, replica, static_cast<int>(rank)});
    if (found == sent.end() || found->second.empty() || view.slots[rank].empty()) continue;
    if (found->second == view.slots[rank]) continue;
    finding.sentence = fmt::format(
        "the unsharded {} on rank {} differs from what shard rank {} holds in that rank's rows", path,
        event.rank, rank);
    findings->push_back(finding);
    return;
  }
}

}  // namespace

void check_bytes(const Expected& expected, const Trace& trace, Findings* findings) {
  Sent sent;
  const int shards = expected.the_case().mesh.shard_size();
  for (const Event& event : trace.events) {
    if (const auto* before = std::get_if<PreAllGather>(&event.payload)) {
      if (before->from_post_forward) continue;
      check_sent(event, *before, findings);
      sent[{path_of(before->group, before->param), event.rank / shards, event.rank % shards}] =
          before->rows_digest;
    } else if (const auto* after = std::get_if<Unsharded>(&event.payload)) {
      check_gathered(expected, event, *after, sent, findings);
    }
  }
}

}  // namespace shardfuzz
