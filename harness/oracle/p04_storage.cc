// P4: every view fits its storage; the bytes held are those that the policy gives; nothing reads
// freed storage. (An uneven parameter's storage is padded x ranks, larger than the original.)
#include <fmt/format.h>

#include <map>
#include <string>

#include "harness/case/case_names.h"
#include "harness/oracle/properties.h"

namespace shardfuzz {
namespace {

// Each rank holds its chunk of the rows, in a storage as large as the padded shard.
void check_shards(const Expected& expected, const Trace& trace, Findings* findings) {
  for_each<Sharded>(trace, [&](const Event& event, const Sharded& sharded) {
    const ParamView* view = expected.find(sharded.group, sharded.param);
    if (view == nullptr) return;
    const std::vector<std::int64_t> padded = expected.padded_shape(*view);
    std::vector<std::int64_t> local = padded;
    local[static_cast<std::size_t>(view->param->shard_dim)] =
        layout::chunk_of(expected.split_of(*view), expected.shard_rank_of(event.rank)).count;
    std::int64_t bytes = element_bytes(view->param->dtype);
    for (const std::int64_t dim : padded) bytes *= dim;
    if (sharded.local_shape == local && sharded.padded_shape == padded &&
        sharded.storage_bytes == bytes) {
      return;
    }
    findings->push_back(
        {.property = "P4",
         .rank = event.rank,
         .group = sharded.group,
         .param = sharded.param,
         .phase = event.phase,
         .step = event.step,
         .sentence =
             fmt::format("rank {} holds a shard {} of {}, padded to {} in {} bytes, instead of {}, "
                         "padded to {} in {} bytes",
                         event.rank, shape_text(sharded.local_shape),
                         path_of(sharded.group, sharded.param), shape_text(sharded.padded_shape),
                         sharded.storage_bytes, shape_text(local), shape_text(padded), bytes),
         .event = event.index});
  });
}

void check_views(const Expected& expected, const Trace& trace, Findings* findings) {
  for_each<Unsharded>(trace, [&](const Event& event, const Unsharded& view) {
    const ParamView* param = expected.find(view.group, view.param);
    Finding finding{.property = "P4",
                    .rank = event.rank,
                    .group = view.group,
                    .param = view.param,
                    .phase = event.phase,
                    .step = event.step,
                    .event = event.index};
    const std::string path = path_of(view.group, view.param);
    if (view.needed_bytes > view.storage_bytes) {
      finding.sentence =
          fmt::format("on rank {} the view of {} reaches to byte {} of a storage of {}", event.rank,
                      path, view.needed_bytes, view.storage_bytes);
      findings->push_back(finding);
    } else if (param != nullptr && view.shape != param->param->shape) {
      finding.sentence =
          fmt::format("on rank {} the unsharded {} has shape {} instead of {}", event.rank, path,
                      shape_text(view.shape), shape_text(param->param->shape));
      findings->push_back(finding);
    }
  });
}

// A storage error that PyTorch itself raised: the view did not fit.
void check_refused_views(const Trace& trace, Findings* findings) {
  for_each<Raised>(trace, [&](const Event& event, const Raised& raised) {
    if (raised.message.find("out of bounds for storage of size") == std::string::npos) return;
    findings->push_back(
        {.property = "P4",
         .rank = event.rank,
         .group = raised.group,
         .param = raised.param,
         .phase = event.phase,
         .step = event.step,
         .sentence =
             fmt::format("on rank {} the view of {} does not fit: {}", event.rank,
                         raised.param.empty() ? "a tensor" : path_of(raised.group, raised.param),
                         raised.message),
         .event = event.index});
  });
}

void check_freed_reads(const Trace& trace, Findings* findings) {
  for_each<FreedRead>(trace, [&](const Event& event, const FreedRead& read) {
    findings->push_back(
        {.property = "P4",
         .rank = event.rank,
         .phase = event.phase,
         .step = event.step,
         .sentence = fmt::format("rank {} reads freed storage: {} needs {} bytes of a "
                                 "tensor {} whose storage holds {}",
                                 event.rank, read.op, read.needed_bytes, shape_text(read.shape),
                                 read.storage_bytes),
         .event = event.index});
  });
}

// Bytes held by group, for each (operation of the program, rank).
using Held = std::map<std::pair<std::size_t, int>, std::map<std::string, std::int64_t>>;

Held held_in(const Expected& expected, const Trace& trace) {
  Held held;
  for_each<Storage>(trace, [&](const Event& event, const Storage& storage) {
    const std::int64_t operation = operation_of(expected, event);
    if (storage.at == "reshard" || operation < 0) return;
    held[{static_cast<std::size_t>(operation), event.rank}][storage.group] +=
        storage.unsharded_bytes;
  });
  return held;
}

void check_held(const Expected& expected, const Trace& trace, Findings* findings) {
  if (has_real_exception(trace)) return;
  const auto& life = expected.life().operations;
  for (const auto& [place, by_group] : held_in(expected, trace)) {
    const auto& [operation, rank] = place;
    if (operation >= life.size() || !life[operation].predicted) continue;
    for (std::size_t g = 0; g < life[operation].unsharded_bytes.size(); ++g) {
      const std::string& name = expected.the_case().groups[g].name;
      const std::int64_t want = life[operation].unsharded_bytes[g];
      const auto got = by_group.find(name);
      if (got == by_group.end() || got->second == want) continue;
      const std::size_t per_step = expected.operations_per_step();
      const std::string phase(name_of(expected.operations()[operation % per_step].kind));
      findings->push_back({.property = "P4",
                           .rank = rank,
                           .group = name,
                           .phase = phase,
                           .step = static_cast<int>(operation / per_step),
                           .sentence = fmt::format("after {} rank {} holds {} bytes of unsharded "
                                                   "parameters of group {} instead of {}",
                                                   phase, rank, got->second, name, want)});
      return;
    }
  }
}

}  // namespace

void check_storage(const Expected& expected, const Trace& trace, Findings* findings) {
  check_shards(expected, trace, findings);
  check_views(expected, trace, findings);
  check_refused_views(trace, findings);
  check_freed_reads(trace, findings);
  check_held(expected, trace, findings);
}

}  // namespace shardfuzz
