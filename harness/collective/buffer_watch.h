// BufferWatch: which storages of one rank live, seen from the process group, by weak reference.
//
// The simulated process groups add the buffers of each collective just after its launch: the output
// of an all-gather, input and output of a reduce-scatter, the buffer of an all-reduce; the
// observers of harness/real and harness/native add the storages of unsharded parameters. Nothing is
// kept alive by it: a buffer is held as long as the code under test holds it (and, until the rank
// has its output, the collective: Transfer::release_buffers).
//
// Guaranteed: a storage counts once, in the first role that it is seen in; bytes are its nbytes()
// when asked, so a storage that was resized to 0 counts nothing; buffers without bytes and
// collectives without elements leave no trace. One of the files of harness/collective that know
// torch (c10 alone).
//
// Thread rule: one object a rank, used while that rank runs.
// Use:  watch.add(BufferRole::kGatherOutput, "shard", 3, tensor.storage());  watch.note_launch();
//       recorder.record(rank, watch.take());   // at the end of an operation
#pragma once

#include <c10/core/Storage.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/trace/event.h"

namespace shardfuzz {

enum class BufferRole : std::uint8_t { kGatherOutput, kReduceInput, kReduceOutput, kUnsharded };

class BufferWatch {
 public:
  // `process_group` and `sequence` name the collective; of an unsharded parameter they are ignored.
  void add(BufferRole role, const std::string& process_group, std::int64_t sequence,
           const c10::Storage& storage) {
    const c10::StorageImpl* target = storage.unsafeGetStorageImpl();
    const auto is_known = [target](const Entry& entry) {
      return entry.storage._unsafe_get_target() ==
             target;  // not reused: the weak reference holds it
    };
    if (std::any_of(entries_.begin(), entries_.end(), is_known)) return;
    entries_.push_back({.storage = storage.getWeakStorageImpl(),
                        .role = role,
                        .process_group = process_group,
                        .sequence = sequence});
  }

  void add_unsharded(const c10::Storage& storage) {
    add(BufferRole::kUnsharded, std::string(), -1, storage);
  }

  // Just after a launch, when its buffers are added.
  void note_launch() {
    std::int64_t bytes = 0;
    for (const Entry& entry : entries_) bytes += entry.bytes();
    peak_bytes_ = std::max(peak_bytes_, bytes);
  }

  // What lives now, and the peak since the last call.
  [[nodiscard]] Memory take() {
    std::erase_if(entries_, [](const Entry& entry) { return entry.storage.expired(); });
    Memory memory{.peak_bytes = std::exchange(peak_bytes_, 0)};
    for (const Entry& entry : entries_) {
      const std::int64_t bytes = entry.bytes();
      if (entry.role == BufferRole::kUnsharded || bytes == 0) continue;
      memory.buffers.push_back({.role = name_of(entry.role),
                                .process_group = entry.process_group,
                                .sequence = entry.sequence,
                                .bytes = bytes});
    }
    return memory;
  }

 private:
  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    BufferRole role = BufferRole::kUnsharded;
    std::string process_group;
    std::int64_t sequence = -1;

    [[nodiscard]] std::int64_t bytes() const {
      if (storage.expired()) return 0;
      return static_cast<std::int64_t>(storage._unsafe_get_target()->nbytes());
    }
  };

  static const char* name_of(BufferRole role) {
    switch (role) {
      case BufferRole::kGatherOutput: return "gather_output";
      case BufferRole::kReduceInput: return "reduce_input";
      case BufferRole::kReduceOutput: return "reduce_output";
      case BufferRole::kUnsharded: break;
    }
    return "";
  }

  std::vector<Entry> entries_;
  std::int64_t peak_bytes_ = 0;
};

}  // namespace shardfuzz
