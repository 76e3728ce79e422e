// Swarm: which features the generator may use for the next cases.
//
// Swarm testing (Groce, Zhang, Eide, Chen, Regehr: Swarm Testing, ISSTA 2012): a case with every
// feature in it hides one bug behind another, and some bugs show only where a feature is absent. So
// a run draws a random subset of features every few cases.
// Guarantees: a case generated with a feature off does not have it (features_of.h sees none). The
// plain core has no switch: a root and nested groups, every split of dim 0 over 1 to 4 ranks, bf16
// parameters with fp32 reductions, the four operations of a step.
// Use:  options.swarm = draw_swarm(random);  fmt::print("{}", to_text(options.swarm));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/random.h"
#include "harness/base/result.h"

namespace shardfuzz {

enum class Feature {
  // mesh and schedule
  kHsdp,              // a mesh of two dimensions
  kLargeWorld,        // more than 4 ranks
  kRandomSchedule,    // ranks go on in random order
  kPrioritySchedule,  // ... or by random priorities
  kLateDelivery,      // collectives take and give their data late
  kDelays,            // some ranks start late
  kCompareMeshes,     // also run on other meshes (P12)
  // parameters
  kMixedPacks,     // more than one pack:hook in a case
  kOtherCalls,     // not the pack's first call path
  kBf16Original,   // bf16 parameters before mixed precision
  kMixedDtype,     // two original dtypes in a group
  kFrozen,         // parameters without gradient
  kTied,           // two names for one parameter
  kShardDim1,      // Shard(1)
  kManyExperts,    // dim 0 far above the number of ranks
  kUnusedModules,  // groups that some or all ranks leave out of forward
  // policies of a group
  kReshardFalse,      // reshard_after_forward=False
  kReshardInt,        // ... = a smaller shard size
  kNoMixedPrecision,  // no param_dtype
  kFp32Param,         // param_dtype fp32
  kBf16Reduce,        // gradients reduced in bf16
  kOutputDtype,       // outputs cast
  kKeepInputs,        // cast_forward_inputs=False
  kOffload,           // parameters offloaded to the CPU
  // batch and optimizer
  kUnevenTokens,  // ranks with more rows than others
  kIdleRanks,     // ranks, or all of them, without rows
  kEmptyExperts,  // experts without rows
  kTopK,          // more than one expert a token
  kSameBatch,     // every rank gets the same data
  kNormalData,    // normal floats instead of small integers
  kMomentum,      // SGD with momentum
  kManySteps,     // more than three steps
  // operations
  kGradientAccumulation,  // several backwards before a step
  kTwoForwards,           // two forwards before a backward
  kSkipAllReduce,         // HSDP: no all-reduce for some backwards
  kReshardAfterBackward,  // parameters kept unsharded after some backwards
  kOddLoops,              // steps or zero_grads left out or moved
  kExplicitUnshard,       // group.unshard() and group.reshard() by hand
  kAsyncUnshard,          // unshard(async_op=True), _set_unshard_async_op
  kPrefetch,              // set_modules_to_forward_prefetch and backward
  kFreezeOps,             // requires_grad_ changed between steps
  kSaveLoad,              // state_dict and load_state_dict
  kFullTensor,            // full_tensor()
};

inline constexpr int kFeatureCount = static_cast<int>(Feature::kFullTensor) + 1;

std::string_view name_of(Feature feature);   // "hsdp", "late_delivery", ...
const std::vector<Feature>& all_features();  // in the order of the enum

// A set of features; default: none, the plain core.
class Swarm {
 public:
  [[nodiscard]] bool on(Feature feature) const { return ((bits_ >> index_of(feature)) & 1) != 0; }
  void set(Feature feature, bool on) {
    const std::uint64_t bit = std::uint64_t{1} << index_of(feature);
    bits_ = on ? bits_ | bit : bits_ & ~bit;
  }
  bool operator==(const Swarm&) const = default;

 private:
  static int index_of(Feature feature) { return static_cast<int>(feature); }
  static_assert(kFeatureCount <= 64);
  std::uint64_t bits_ = 0;
};

Swarm all_on();

// Each feature is on with probability 1/2.
Swarm draw_swarm(Random& random);

// "all", "core" (no feature), or the names of those that are on: "hsdp,frozen".
std::string to_text(const Swarm& swarm);

// Reads to_text, and changes of it from left to right: "all,-hsdp,-tied".
Result<Swarm> parse_swarm(std::string_view text);

}  // namespace shardfuzz
