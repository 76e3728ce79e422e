// P10: no buffer outlives its phase, and no operation holds more at its peak than the rule book
// says.
//
// Judged rank by rank at the end of each operation: the buffers of collectives that still live, the
// unsharded gradients that wait for their reduction and the shard that an int reshard keeps (these
// two where bytes are written down: after forward, backward and step), then the peak at its
// launches. One finding a rank, the first. Like P9 up to the first operation that the rule book
// does not predict, and only where no rank raised. Unsharded parameters between operations are
// P4's.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "harness/case/case_names.h"
#include "harness/oracle/properties.h"

namespace shardfuzz {
namespace {

struct Role {
  std::string_view name;  // in HeldBuffer
  const char* text;
  std::int64_t layout::Life::Buffers::*bytes;
};
constexpr Role kRoles[] = {
    {"gather_output", "all-gather outputs", &layout::Life::Buffers::gather_output},
    {"reduce_input", "reduce-scatter inputs", &layout::Life::Buffers::reduce_input},
    {"reduce_output", "reduced gradients' buffers", &layout::Life::Buffers::reduce_output},
};

// What the ranks wrote down at the end of each operation.
class Written {
 public:
  struct OfGroup {
    bool is_there = false;  // bytes are not written down at the end of every operation
    std::int64_t gradient_bytes = 0, post_forward_bytes = 0;
  };

  Written(const Expected& expected, const Trace& trace)
      : groups_(expected.the_case().groups),
        operations_(expected.life().operations.size()),
        memories_(operations_ * static_cast<std::size_t>(trace.world_size)),
        by_group_(memories_.size() * groups_.size()) {
    for (const Event& event : trace.events) {
      const std::int64_t operation = operation_of(expected, event);
      if (operation < 0 || event.rank < 0) continue;
      const std::size_t place = place_of(event.rank, static_cast<std::size_t>(operation));
      if (std::holds_alternative<Memory>(event.payload)) {
        memories_[place] = &event;
      } else if (const auto* storage = std::get_if<Storage>(&event.payload)) {
        if (storage->at != "reshard") add(*storage, place);
      }
    }
  }

  // With a Memory; null: the operation did not end.
  [[nodiscard]] const Event* end(int rank, std::size_t operation) const {
    return memories_[place_of(rank, operation)];
  }
  [[nodiscard]] const OfGroup& of_group(int rank, std::size_t operation, std::size_t group) const {
    return by_group_[place_of(rank, operation) * groups_.size() + group];
  }

 private:
  [[nodiscard]] std::size_t place_of(int rank, std::size_t operation) const {
    return static_cast<std::size_t>(rank) * operations_ + operation;
  }

  void add(const Storage& storage, std::size_t place) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].name != storage.group) continue;
      OfGroup& group = by_group_[place * groups_.size() + g];
      group.is_there = true;
      group.gradient_bytes += storage.gradient_bytes;
      group.post_forward_bytes += storage.post_forward_bytes;
    }
  }

  const std::vector<GroupSpec>& groups_;
  std::size_t operations_;
  std::vector<const Event*> memories_;
  std::vector<OfGroup> by_group_;
};

const Memory& memory_in(const Event& event) { return std::get<Memory>(event.payload); }

class RankCheck {
 public:
  RankCheck(const Expected& expected, const Trace& trace, const Written& written, int rank)
      : expected_(expected), trace_(trace), written_(written), rank_(rank) {}

  // True where something was found.
  bool run(Findings* findings) {
    const auto& life = expected_.life().operations;
    for (std::size_t i = 0; i < life.size() && life[i].predicted; ++i) {
      if (written_.end(rank_, i) == nullptr) continue;
      if (check_buffers(i, findings) || check_groups(i, findings) || check_peak(i, findings)) {
        return true;
      }
    }
    return false;
  }

 private:
  [[nodiscard]] std::string phase_of(std::size_t operation) const {
    const std::size_t number = operation % expected_.operations_per_step();
    return std::string(name_of(expected_.operations()[number].kind));
  }

  bool find(std::size_t operation, const std::string& group, std::string sentence,
            Findings* findings) const {
    findings->push_back({.property = "P10",
                         .rank = rank_,
                         .group = group,
                         .phase = phase_of(operation),
                         .step = static_cast<int>(operation / expected_.operations_per_step()),
                         .sentence = std::move(sentence),
                         .event = written_.end(rank_, operation)->index});
    return true;
  }

  bool check_buffers(std::size_t operation, Findings* findings) const {
    for (const Role& role : kRoles) {
      std::int64_t bytes = 0;
      const HeldBuffer* oldest = nullptr;
      for (const HeldBuffer& buffer : memory_in(*written_.end(rank_, operation)).buffers) {
        if (buffer.role != role.name) continue;
        bytes += buffer.bytes;
        if (oldest == nullptr) oldest = &buffer;
      }
      const std::int64_t want = expected_.life().operations[operation].buffers.*role.bytes;
      if (bytes == want) continue;
      std::string group;
      std::string sentence = fmt::format("after {} rank {} holds {} bytes of {} instead of {}",
                                         phase_of(operation), rank_, bytes, role.text, want);
      if (bytes > want) sentence += too_old(*oldest, &group);
      return find(operation, group, std::move(sentence), findings);
    }
    return false;
  }

  // Which collective left a buffer behind, and for which group the rule book lists it.
  std::string too_old(const HeldBuffer& buffer, std::string* group) const {
    std::int64_t operation = -1;
    std::size_t place = 0;  // among the launches of its operation
    for (const Event& event : trace_.events) {
      const auto* launch = std::get_if<Launch>(&event.payload);
      if (launch == nullptr || event.rank != rank_ || launch->sequence < 0) continue;
      const std::int64_t now = operation_of(expected_, event);
      place = now == operation ? place + 1 : 0;
      operation = now;
      if (launch->process_group == buffer.process_group && launch->sequence == buffer.sequence)
        break;
    }
    if (operation < 0) return "";
    const auto number = static_cast<std::size_t>(operation);
    const auto& collectives = expected_.life().operations[number].collectives;
    std::string of_group;
    if (place < collectives.size()) {
      *group = expected_.the_case().groups[static_cast<std::size_t>(collectives[place].group)].name;
      of_group = fmt::format(" for group {}", *group);
    }
    return fmt::format(
        ": that of collective {} of {}, launched{} in {} of step {}, has {} bytes and should be "
        "gone",
        buffer.sequence, buffer.process_group, of_group, phase_of(number),
        number / expected_.operations_per_step(), buffer.bytes);
  }

  bool check_groups(std::size_t operation, Findings* findings) const {
    const auto& want = expected_.life().operations[operation];
    const auto& groups = expected_.the_case().groups;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const Written::OfGroup& got = written_.of_group(rank_, operation, g);
      if (!got.is_there) continue;
      const auto differs = [&](const char* what, std::int64_t held, std::int64_t wanted) {
        if (held == wanted) return false;
        return find(operation, groups[g].name,
                    fmt::format("after {} rank {} holds {} bytes of {} of group {} instead of {}",
                                phase_of(operation), rank_, held, what, groups[g].name, wanted),
                    findings);
      };
      if (differs("unsharded gradients", got.gradient_bytes, want.gradient_bytes[g]) ||
          differs("the shard kept after forward", got.post_forward_bytes,
                  want.post_forward_bytes[g])) {
        return true;
      }
    }
    return false;
  }

  // What else gathers (full_tensor, load) is not in the rule book.
  bool check_peak(std::size_t operation, Findings* findings) const {
    const std::size_t number = operation % expected_.operations_per_step();
    const OpKind kind = expected_.operations()[number].kind;
    if (kind == OpKind::kFullTensor || kind == OpKind::kLoad) return false;
    const std::int64_t peak = memory_in(*written_.end(rank_, operation)).peak_bytes;
    const std::int64_t want = expected_.life().operations[operation].buffers.peak;
    if (peak == want) return false;
    return find(operation, "",
                fmt::format("in {} rank {} holds up to {} bytes of collectives' buffers and "
                            "unsharded parameters at a launch instead of {}",
                            phase_of(operation), rank_, peak, want),
                findings);
  }

  const Expected& expected_;
  const Trace& trace_;
  const Written& written_;
  int rank_;
};

}  // namespace

void check_memory(const Expected& expected, const Trace& trace, Findings* findings) {
  if (!follows_life(expected, trace)) return;
  const Written written(expected, trace);
  for (int rank = 0; rank < trace.world_size; ++rank) {
    RankCheck(expected, trace, written, rank).run(findings);
  }
}

}  // namespace shardfuzz
