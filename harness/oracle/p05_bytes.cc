// P5: what was gathered equals the shards bit for bit, and no tagged NaN (padding) is in it.
#include <fmt/format.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "harness/oracle/properties.h"

namespace shardfuzz {
namespace {

// What each rank sent for a parameter, in order, by (path, replica, shard rank). The n-th gather of
// a rank meets the n-th of the others, so the order in which the ranks took turns does not matter.
using Key = std::tuple<std::string, int, int>;
using Sent = std::map<Key, std::vector<std::string>>;

Sent rows_sent(const Trace& trace, int shards) {
  Sent sent;
  for_each<PreAllGather>(trace, [&](const Event& event, const PreAllGather& before) {
    if (before.from_post_forward) return;
    sent[{path_of(before.group, before.param), event.rank / shards, event.rank % shards}].push_back(
        before.rows_digest);
  });
  return sent;
}

void check_sent(const Event& event, const PreAllGather& sent, Findings* findings) {
  if (sent.local_digest.empty() || sent.rows_digest.empty()) return;
  if (sent.local_digest == sent.rows_digest) return;
  findings->push_back(
      {.property = "P5",
       .rank = event.rank,
       .group = sent.group,
       .param = sent.param,
       .phase = event.phase,
       .step = event.step,
       .sentence = fmt::format("rank {} sends other bytes for {} than its shard holds", event.rank,
                               path_of(sent.group, sent.param)),
       .event = event.index});
}

// `gather`: how many times this rank had sent the parameter by then.
void check_gathered(const Expected& expected, const Event& event, const Unsharded& view,
                    const Sent& sent, std::size_t gather, Findings* findings) {
  const std::string path = path_of(view.group, view.param);
  Finding finding{.property = "P5",
                  .rank = event.rank,
                  .group = view.group,
                  .param = view.param,
                  .phase = event.phase,
                  .step = event.step,
                  .event = event.index};
  if (view.tags > 0) {
    finding.sentence = fmt::format("{} elements of the unsharded {} on rank {} are padding (NaN)",
                                   view.tags, path, event.rank);
    findings->push_back(finding);
    return;
  }
  const ParamView* param = expected.find(view.group, view.param);
  if (param == nullptr || gather == 0) return;
  const int replica = event.rank / expected.the_case().mesh.shard_size();
  for (int rank = 0; rank < static_cast<int>(view.slots.size()); ++rank) {
    const std::string& got = view.slots[static_cast<std::size_t>(rank)];
    const auto found = sent.find({path, replica, rank});
    if (found == sent.end() || found->second.size() < gather) continue;
    const std::string& want = found->second[gather - 1];
    if (want.empty() || got.empty() || want == got) continue;
    const layout::Rows rows = layout::chunk_of(expected.split_of(*param), rank);
    finding.sentence = fmt::format(
        "the unsharded {} on rank {} differs from what shard rank {} sent in "
        "{} rows from row {}",
        path, event.rank, rank, rows.count, rows.offset);
    findings->push_back(finding);
    return;
  }
}

}  // namespace

void check_bytes(const Expected& expected, const Trace& trace, Findings* findings) {
  const int shards = expected.the_case().mesh.shard_size();
  const Sent sent = rows_sent(trace, shards);
  std::map<Key, std::size_t> gathers;
  for (const Event& event : trace.events) {
    const auto key = [&](const std::string& group, const std::string& param) {
      return Key{path_of(group, param), event.rank / shards, event.rank % shards};
    };
    if (const auto* before = std::get_if<PreAllGather>(&event.payload)) {
      if (before->from_post_forward) continue;
      check_sent(event, *before, findings);
      ++gathers[key(before->group, before->param)];
    } else if (const auto* after = std::get_if<Unsharded>(&event.payload)) {
      check_gathered(expected, event, *after, sent, gathers[key(after->group, after->param)],
                     findings);
    }
  }
}

}  // namespace shardfuzz
