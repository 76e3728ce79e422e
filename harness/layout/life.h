// Life: what a sharded model does on the wire and holds in memory, step by step, before it runs.
//
// The rule book for P4 (bytes held), P9 (collectives) and P10 (buffers and peak). It follows what
// FSDP2 documents and torch 2.11 does (_fsdp_param_group.py, _fsdp_state.py): a group is gathered
// before forward unless it is unsharded already; after forward it is resharded by its policy; in
// backward the groups run in reverse order of their forward's end, each prefetching the one before
// it; after a group's backward its gradients are reduce-scattered (and all-reduced under HSDP), if
// there are any; a shard group of one rank sends nothing. The root keeps its parameters after
// forward unless its policy says otherwise.
//
// Buffers of collectives end with their phase: a gather's output when the group's parameters are
// copied out of it (in forward, so that the copy overlaps the next gather, when the next group's
// are, at the latest when the root's forward ends); a reduce-scatter's input at the next reduction
// or the end of backward; an all-reduce's buffer at the end of backward. A reduction's output
// lives on as the storage of the gradients that it gives (where they need no cast and there were
// none yet), until they are dropped, or as the sum that a later all-reduce is owed.
//
// Integers only. All ranks do the same here; programs whose ranks differ (modules that some ranks
// do not use) and two forwards before a backward are not predicted: `predicted` turns false at the
// first operation that is not, and nothing after it may be judged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardfuzz::layout {

struct LifeParam {
  std::int64_t gather_bytes = 0;       // that one rank sends in the all-gather
  std::int64_t gather_numel = 0;       // padded elements of one rank
  std::int64_t reduce_numel = 0;       // padded elements of one rank in the reduce-scatter
  std::int64_t hook_reduce_bytes = 0;  // of an all-reduce that its pre-gather hook issues (0: none)
  std::int64_t value_bytes = 0;  // held beside what was gathered while unsharded (0: a view of it)
  std::int64_t gradient_bytes = 0;  // of the unsharded gradient while it waits for its reduction
  bool trainable = true;
  bool owns_gradient = true;  // false: tied to an earlier parameter of the same group
};

enum class Reshard { kNever, kAfterForward, kToSmallerMesh };

struct LifeGroup {
  std::vector<LifeParam> params;
  Reshard reshard = Reshard::kAfterForward;
  int reshard_ranks = 0;  // for kToSmallerMesh
  std::int64_t reduce_item_bytes = 4;
  bool casts_reduced = false;  // or copied to another device, to give the gradients
  bool is_used = true;         // false: no rank's forward runs it
};

enum class Step {  // one operation of the program
  kForward,
  kBackward,
  kUnshard,
  kWaitUnshard,
  kReshard,
  kSyncOn,
  kSyncOff,
  kReshardAfterBackwardOn,
  kReshardAfterBackwardOff,
  kAllReduceOn,
  kAllReduceOff,
  kFreeze,
  kUnfreeze,
  kPrefetchForward,
  kPrefetchBackward,
  kAsyncUnshard,
  kStateDict,
  kZeroGrad,  // drops the sharded gradients
  kOther,
};

struct Operation {
  Step step = Step::kOther;
  int group = -1, param = -1;  // where the operation names them
  bool is_async = false;       // of kUnshard: held from the wait on, not from the launch
};

struct Life {
  struct Collective {
    std::string process_group;  // "shard", "replicate", "post_forward"
    std::string kind;           // "all_gather", "reduce_scatter", "all_reduce"
    std::int64_t bytes = 0;
    int group = -1;
    bool operator==(const Collective&) const = default;
  };
  // Bytes of the collectives' buffers that one rank holds. A buffer that nothing was sent from or
  // into (a group of one rank, no elements) does not count.
  struct Buffers {
    std::int64_t gather_output = 0;  // alive at the operation's end
    std::int64_t reduce_input = 0;
    std::int64_t reduce_output = 0;  // and the buffers of all-reduces
    // Most bytes just after a launch in this operation, unsharded parameters included.
    std::int64_t peak = 0;
    bool operator==(const Buffers&) const = default;
  };
  struct AfterOperation {
    bool predicted = true;
    std::vector<Collective> collectives;           // of this operation, in order
    std::vector<std::int64_t> unsharded_bytes;     // held for each group at its end
    std::vector<std::int64_t> post_forward_bytes;  // in the shard that an int reshard keeps
    std::vector<std::int64_t> gradient_bytes;  // in unsharded gradients that are not reduced yet
    Buffers buffers;
  };
  std::vector<AfterOperation> operations;
};

struct LifeModel {
  int shard_ranks = 1;
  // HSDP: gradients are all-reduced over the replicas, a single one too (FSDP2 asks for it then).
  bool has_replicas = false;
  std::vector<LifeGroup> groups;  // groups[0] is the root
};

// The life of `model` under `program` (all operations of all steps in a row).
Life live(const LifeModel& model, const std::vector<Operation>& program);

}  // namespace shardfuzz::layout
