// Comm: how one rank of the native target talks to the others.
//
// The collectives that FSDP2 issues, on raw buffers of one dtype. SimComm (sim_comm.h) is the
// simulated process group of harness/collective; NCCL is to implement the same interface. What a
// call means, counts of 0 and disagreeing ranks included, is said in harness/collective/hub.h.
//
// Every call is a launch; its Work is waited for by the caller, as torch.distributed does with
// async_op=False at once. Errors: StuckError out of a launch or a wait when nobody can go on.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <memory>

namespace shardfuzz::native {

// The process groups that one rank is a member of.
enum class GroupKind {
  kShard,        // the last mesh dimension
  kReplicate,    // the first of two
  kPostForward,  // the part of the shard group that an int reshard_after_forward keeps whole
};

struct GroupName {
  GroupKind kind = GroupKind::kShard;
  // Of kPostForward: the size that reshard_after_forward names, and the fully_shard call, since
  // each makes process groups of its own.
  int ranks = 0, owner = 0;
};
inline constexpr GroupName kShardGroup{.kind = GroupKind::kShard};
inline constexpr GroupName kReplicateGroup{.kind = GroupKind::kReplicate};

enum class ReduceKind { kSum, kAvg };

// A contiguous run of elements. It holds its storage: a rank may raise between launch and wait
// while its peers still read what it sent.
struct Buffer {
  void* data = nullptr;
  std::int64_t count = 0;
  c10::ScalarType dtype = c10::ScalarType::Float;
  c10::Storage owner{};

  [[nodiscard]] std::int64_t bytes() const {
    return count * static_cast<std::int64_t>(c10::elementSize(dtype));
  }
};

class Work {
 public:
  virtual ~Work() = default;
  virtual void wait() = 0;
};

class Comm {
 public:
  virtual ~Comm() = default;
  [[nodiscard]] virtual int size(const GroupName& group) const = 0;
  [[nodiscard]] virtual int rank(const GroupName& group) const = 0;

  // The mesh has a replicate dimension, be it of one rank.
  [[nodiscard]] virtual bool has_replicas() const = 0;

  // `output` holds size x input.count elements; `input` may lie in the caller's own slot of it.
  virtual std::unique_ptr<Work> all_gather(const GroupName& group, Buffer output, Buffer input) = 0;
  // As allgather_into_tensor_coalesced, which DTensor uses: input and output are two tensors, so
  // that after a disagreement nothing of the output is the caller's own.
  virtual std::unique_ptr<Work> all_gather_coalesced(const GroupName& group, Buffer output,
                                                     Buffer input) = 0;
  // `input` holds size x output.count elements.
  virtual std::unique_ptr<Work> reduce_scatter(Buffer output, Buffer input, ReduceKind kind) = 0;
  // In place, over kReplicate.
  virtual std::unique_ptr<Work> all_reduce(Buffer buffer, ReduceKind kind) = 0;
};

}  // namespace shardfuzz::native
