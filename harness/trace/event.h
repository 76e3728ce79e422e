// Events of one run. A trace is all that the oracle sees of the code under test.
//
// Every event carries a global index (the simulated ranks run one at a time, so there is one
// order), the rank, the step (-1: before the first) and the phase. Digests are
// hex64(tensor_digest(...)); numbers are elements unless the name says bytes. The writers are
// harness/collective (Launch, Mismatch, Delivered, Memory), harness/real (the rest) and
// harness/native; they all write this one format.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace shardfuzz {

// One tensor as a hook or PyTorch sees it.
struct TensorNote {
  std::vector<std::int64_t> shape;
  std::string dtype;       // "float32", "bfloat16", ...
  std::int64_t bytes = 0;  // numel * itemsize
  std::string digest;
  bool operator==(const TensorNote&) const = default;
};

// A parameter after fully_shard, on one rank.
struct Sharded {
  std::string group, param;
  std::vector<std::int64_t> local_shape, padded_shape;
  std::string local_type, dtype;
  std::string expected_type;       // that the pack says local_type is
  std::int64_t storage_bytes = 0;  // of the padded shard
  bool requires_grad = true;
  bool operator==(const Sharded&) const = default;
};

// What a rank is about to send for one parameter.
struct PreAllGather {
  std::string group, param;
  int hook_arguments = 0;          // 0: no hook
  bool from_post_forward = false;  // regather after an int reshard
  std::vector<TensorNote> inputs;
  std::vector<TensorNote> declared;  // what the pack says a correct hook returns
  std::string rows_digest;           // of the first input's rows that belong to this rank
  std::string local_digest;          // of the local shard cast as it should be sent; "" if no such
  bool operator==(const PreAllGather&) const = default;
};

// What one rank brings to a collective.
struct Call {
  int rank = 0;      // global
  std::string kind;  // "all_gather", "reduce_scatter", "all_reduce", "broadcast", ...
  std::string dtype;
  std::int64_t count = 0;  // elements that this rank sends (all_gather) or receives (others)
  std::int64_t bytes = 0;  // the same in bytes
  int root = -1;           // member index; -1 where the kind has none
  std::string reduce;      // "sum", "avg", "premul_sum", ...; "" where nothing is reduced
  bool operator==(const Call&) const = default;
};

struct Launch {
  std::string process_group;   // "shard", "replicate", "world", "post_forward"
  std::vector<int> members;    // global ranks
  std::int64_t sequence = -1;  // -1: count 0, completes locally and takes no number
  Call call;
  std::string digest;  // of the input bytes
  bool operator==(const Launch&) const = default;
};

struct Delivered {
  std::string process_group;
  std::vector<int> members;
  std::int64_t sequence = 0;
  std::string kind;
  std::string digest;  // of the output bytes
  bool operator==(const Delivered&) const = default;
};

// All members have launched and do not agree. Recorded before anything is delivered.
struct Mismatch {
  std::string process_group;
  std::vector<int> members;
  std::int64_t sequence = 0;
  std::vector<Call> calls;  // by member
  bool operator==(const Mismatch&) const = default;
};

// A parameter after it was gathered and viewed.
struct Unsharded {
  std::string group, param;
  std::vector<std::int64_t> shape, stride;
  std::string dtype, type;
  std::string expected_type;       // that the pack says `type` is
  std::int64_t storage_bytes = 0;  // of the storage that the view lies in
  std::int64_t needed_bytes = 0;   // that the view reaches to
  bool requires_grad = true;
  std::vector<std::string> slots;  // digest of each shard rank's rows in the gathered data
  std::int64_t tags = 0;           // tagged NaNs found in it: padding that reached a result
  bool operator==(const Unsharded&) const = default;
};

// Bytes held for the unsharded form of a parameter at the end of a phase.
struct Storage {
  std::string group, param;
  std::string at;  // "init", "forward", "backward", "step", "reshard"
  std::int64_t unsharded_bytes = 0;
  std::int64_t post_forward_bytes = 0;  // of the shard kept by an int reshard
  std::int64_t gradient_bytes = 0;      // of the unsharded gradient that waits for its reduction
  bool operator==(const Storage&) const = default;
};

// An operator is about to read a tensor whose storage is too small: freed, or never large enough.
struct FreedRead {
  std::string op;
  std::int64_t storage_bytes = 0, needed_bytes = 0;
  std::vector<std::int64_t> shape;
  bool operator==(const FreedRead&) const = default;
};

struct Gradient {
  std::string group, param;
  bool present = false;
  std::string type, dtype;
  std::vector<std::int64_t> shape;
  std::string digest;
  bool operator==(const Gradient&) const = default;
};

// After the optimizer step.
struct Stepped {
  std::string group, param;
  bool optimizer_owns_it = true;  // the optimizer's tensor is the module's tensor
  std::string type, dtype;
  bool requires_grad = true;
  std::string digest;  // of the local shard
  bool operator==(const Stepped&) const = default;
};

// Comparison of a value with the plain module on one device.
struct Reference {
  std::string group, param;
  std::string what;            // "gradient", "parameter", "output"
  bool exact = false;          // bitwise equality was required
  bool missing = false;        // one side has no value
  std::int64_t differing = 0;  // elements outside the bound (exact: not equal)
  std::int64_t first = -1;     // index of the first of them in the local tensor
  double got = 0, want = 0;    // there
  double headroom = 0;         // largest error as a share of its bound (0 where exact)
  bool operator==(const Reference&) const = default;
};

struct Loaded {
  std::string group, param;
  bool same_bytes = true, same_type = true;
  bool operator==(const Loaded&) const = default;
};

// Digest of the full parameter at the end: for comparing meshes.
struct Final {
  std::string group, param;
  std::string digest;
  bool exact = false;          // integer data, power-of-two groups: must be equal on every mesh
  std::vector<double> sample;  // a few values for a message and for bounded comparison
  bool operator==(const Final&) const = default;
};

struct Raised {
  std::string type, message;
  std::string where;         // innermost function of torch or the pack: "file.py:function"
  std::string group, param;  // of the parameter being handled, where known
  bool by_harness = false;   // our own "nobody can go on" on its way out
  bool operator==(const Raised&) const = default;
};

struct Finished {
  bool operator==(const Finished&) const = default;
};

// No rank can go on (or the step bound is reached).
struct Stuck {
  struct Rank {
    int rank = 0;
    std::string state;      // "waits", "raised", "done"
    std::string waits_for;  // "all_gather 3 of shard"
    bool operator==(const Rank&) const = default;
  };
  bool step_bound = false;
  std::vector<Rank> ranks;
  bool operator==(const Stuck&) const = default;
};

// A buffer of a collective that is alive: some tensor still lies in its storage.
struct HeldBuffer {
  std::string
      role;  // "gather_output", "reduce_input", "reduce_output" (an all-reduce's buffer too)
  std::string process_group;  // of the first collective that it was part of, with `sequence`
  std::int64_t sequence = 0;
  std::int64_t bytes = 0;  // of its storage
  bool operator==(const HeldBuffer&) const = default;
};

// What one rank holds when an operation is over. Inputs of an all-gather that are not part of its
// output are the caller's own and left out, and so are collectives without elements.
struct Memory {
  std::vector<HeldBuffer> buffers;  // in the order of their launches
  // The most bytes held just after a launch of this operation, in buffers of collectives (those of
  // the launched one among them) and unsharded parameters together; 0: nothing was launched.
  std::int64_t peak_bytes = 0;
  bool operator==(const Memory&) const = default;
};

using Payload =
    std::variant<Sharded, PreAllGather, Launch, Delivered, Mismatch, Unsharded, Storage, FreedRead,
                 Gradient, Stepped, Reference, Loaded, Final, Raised, Finished, Stuck, Memory>;

struct Event {
  std::int64_t index = 0;
  int rank = -1;
  int step = -1;
  int operation = -1;  // index in the case's operations; -1: before or after them
  std::string phase;   // "init", the operation's name, "end", "reference"
  Payload payload;
  bool operator==(const Event&) const = default;
};

}  // namespace shardfuzz
