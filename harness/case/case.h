// Case: one experiment as data. Everything a run depends on is in here and nothing else is.
//
// This is the in-memory form of a `shardfuzz.case/1` file (schema: repro_cases/schema.json).
// Reading, writing and the canonical spelling are in case_json.h, the rules a case must obey in
// validate.h. A default-constructed field is the format's default, and the writer leaves out what
// equals its default, so a minimized case is short.
//
// Words: the *shard group* of a case is the last mesh dimension; its size is what FSDP2 shards
// over. A mesh of two dimensions is HSDP: replicate x shard.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace shardfuzz {

enum class DType { kFloat32, kBFloat16, kFloat16, kFloat8E4M3, kUInt8 };

// How a module uses a parameter in forward. w is the parameter, x the rank's own input.
enum class CallPath {
  kGroupedMm,        // torch._grouped_mm(x, w.transpose(-2, -1), offs=offs); w (E, N, K), x (M, K)
  kGroupedMmNoOffs,  // torch._grouped_mm(x, w.transpose(-2, -1)); w (E, N, K), x (E, M, K)
  kBmm,              // torch.bmm(x, w.transpose(-2, -1)); shapes as above
  kLinear,           // torch.nn.functional.linear(x, w); w (N, K), x (M, K)
  kMul,              // x * w with x of w's shape; any shape, a dense and exact gradient
};

struct ParamSpec {
  std::string name;                 // unique within its group: [a-z][a-z0-9_]*
  std::vector<std::int64_t> shape;  // of the full (unsharded) parameter
  DType dtype = DType::kFloat32;    // original dtype, before mixed precision
  int shard_dim = 0;                // Shard(d)
  std::string pack = "plain";       // code under test that builds the parameter; see pack_info.h
  std::string hook = "none";        // which of the pack's hook versions
  CallPath call = CallPath::kMul;
  bool requires_grad = true;
  std::string tied_to;  // "group.param" that this parameter is the same tensor as
  std::optional<int> tensor_parallel_dim;  // room for TP: refused by targets that cannot do it
  bool operator==(const ParamSpec&) const = default;
};

// MixedPrecisionPolicy; an unset dtype is Python's None.
struct MixedPrecision {
  std::optional<DType> param_dtype;
  std::optional<DType> reduce_dtype;
  std::optional<DType> output_dtype;
  bool cast_forward_inputs = true;
  bool operator==(const MixedPrecision&) const = default;
};

// fully_shard(reshard_after_forward=...): unset is the default (None), else a bool or a shard size.
using ReshardAfterForward = std::variant<std::monostate, bool, int>;

struct GroupSpec {
  std::string name;               // module name; the first group of a case is the root module
  std::vector<ParamSpec> params;  // the root may have none
  ReshardAfterForward reshard_after_forward;
  MixedPrecision mixed_precision;
  bool offload_to_cpu = false;
  std::vector<int> unused_on_ranks;  // global ranks whose forward skips this module
  bool operator==(const GroupSpec&) const = default;
};

enum class OpKind {
  kForward,               // the whole model; a second forward before backward keeps both losses
  kBackward,              // of every loss since the last backward
  kStep,                  // optimizer step
  kZeroGrad,              // optimizer.zero_grad()
  kUnshard,               // group.unshard(async_op=flag)
  kWaitUnshard,           // wait on the handle of the last async unshard of this group
  kReshard,               // group.reshard()
  kPrefetchForward,       // root.set_modules_to_forward_prefetch([group])
  kPrefetchBackward,      // root.set_modules_to_backward_prefetch([group])
  kUnshardAsyncOp,        // group._set_unshard_async_op(flag)
  kGradientSync,          // root.set_requires_gradient_sync(flag)
  kReshardAfterBackward,  // root.set_reshard_after_backward(flag)
  kAllReduce,             // root.set_requires_all_reduce(flag); HSDP only
  kFreeze,                // group.param: requires_grad_(False)
  kUnfreeze,              // group.param: requires_grad_(True)
  kSave,                  // keep model.state_dict() in memory
  kLoad,                  // load what kSave kept
  kFullTensor,            // full_tensor() of group.param
};

struct Operation {
  OpKind kind = OpKind::kForward;
  std::string group;  // for operations on one module
  std::string param;  // for operations on one parameter
  bool flag = false;  // for the setters and kUnshard
  bool operator==(const Operation&) const = default;
};

enum class DataKind {
  kInteger,  // small integers: products and sums are exact in every dtype used
  kNormal,   // normal floats: comparisons of reductions use a derived bound
};

struct Batch {
  int tokens_per_expert = 16;       // rows that each expert gets (kLinear: rows of x)
  int top_k = 1;                    // experts per token: multiplies the rows
  std::vector<int> tokens_by_rank;  // one factor a rank for the rows; empty: 1 everywhere
  std::vector<int> empty_experts;   // experts that get no rows on any rank
  bool same_on_all_ranks = false;   // every rank gets rank 0's data
  DataKind values = DataKind::kInteger;
  bool operator==(const Batch&) const = default;
};

enum class OptimizerKind { kSgd, kSgdMomentum };

struct Optimizer {
  OptimizerKind kind = OptimizerKind::kSgd;
  int lr_log2 = -6;  // learning rate 2^lr_log2: a power of two keeps integer data exact
  bool operator==(const Optimizer&) const = default;
};

enum class SchedulePolicy {
  kRoundRobin,  // ranks in order
  kRandom,      // uniformly random among those that can go on, from the seed
  kPriority,    // PCT: random priorities, lowered at `change_points` random places
};

// When simulated collectives take and give their data; both are legal for NCCL.
enum class Delivery {
  kEarly,  // data taken at launch, given as soon as the last rank has launched
  kLate,   // data taken and given at the wait that needs it
};

struct Schedule {
  SchedulePolicy policy = SchedulePolicy::kRoundRobin;
  std::uint64_t seed = 0;
  int change_points = 0;
  Delivery delivery = Delivery::kEarly;
  std::vector<int> delays;  // one number a rank: hand-overs during which it is not chosen at first
  bool operator==(const Schedule&) const = default;
};

struct Mesh {
  std::vector<int> shape{2};
  std::vector<std::string> dim_names{"shard"};  // of "replicate", "shard", "tp", "ep"
  [[nodiscard]] int world_size() const;
  // Size of the "shard" dimension (1 where there is none).
  [[nodiscard]] int shard_size() const;
  [[nodiscard]] int replicate_size() const;
  bool operator==(const Mesh&) const = default;
};

// Where a case comes from; for the reader of the file, never used by a run.
struct Origin {
  std::string kind = "hand";  // "report", "fuzz", "hand"
  std::string source;         // URL of a report, or the command of a fuzz run
  std::string note;
  bool operator==(const Origin&) const = default;
};

// Where it was found, for the reader of the file and for `replay` to choose a target.
struct Environment {
  std::string torch, torchao, nccl;
  std::string target = "real";  // "real", "native"
  std::string comm = "sim";     // "sim", "nccl"
  std::string device = "cpu";   // "cpu", "cuda"
  bool operator==(const Environment&) const = default;
};

struct Expectation {
  std::string verdict;    // "pass", "fail", "refused", "invalid"; empty: not recorded
  std::string signature;  // for fail and refused
  std::string sentence;   // what is wrong, in one sentence
  bool operator==(const Expectation&) const = default;
};

// A change of the file's place in its life (crashing, incubating, regression).
struct HistoryEntry {
  std::string date, state, note;
  bool operator==(const HistoryEntry&) const = default;
};

struct Case {
  std::string name;
  Origin origin;
  Mesh mesh;
  std::vector<GroupSpec> groups;  // groups[0] is the root; the others are called in order by it
  Batch batch;
  Optimizer optimizer;
  int steps = 3;                      // how often `operations` is run
  std::vector<Operation> operations;  // one step; empty: forward, backward, step, zero_grad
  Schedule schedule;
  std::uint64_t seed = 0;                        // of all data
  std::vector<std::vector<int>> compare_meshes;  // P12: also run on these mesh shapes
  Environment environment;
  Expectation expect;
  std::string predicate;  // the condition on the case under which it fails
  std::vector<HistoryEntry> history;
  bool operator==(const Case&) const = default;
};

// The operations of one step: the case's own, or the default four.
std::vector<Operation> operations_of(const Case& c);

// Size in bytes of one element.
int element_bytes(DType dtype);

}  // namespace shardfuzz
