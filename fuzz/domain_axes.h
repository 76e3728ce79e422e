// The axes of the case space, and where on them a parameter of a case lies.
//
// Guarantees: a parameter of a valid case has exactly one class on each axis; classes, names and
// their order are fixed but for those of the hook axis, which are the packs that the caller names.
// Classification reads the case alone and shares no code with the generator, whose reach it
// measures. Needs a valid case. Pure functions, safe from any thread.
// Use:  evenness_of(param, c.mesh.shard_size()) == Evenness::kShortLast
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fuzz/swarm.h"
#include "harness/case/case.h"

namespace shardfuzz {

enum class Axis { kEvenness, kDtypes, kHook, kReshard, kMesh, kSteps, kExperts, kOperations };
inline constexpr int kAxisCount = static_cast<int>(Axis::kOperations) + 1;
std::string_view name_of(Axis axis);  // "evenness", "dtypes", ...

// How the sharded dimension falls on the ranks of the shard group (harness/layout/chunk.h).
enum class Evenness {
  kOneShard,     // a group of one rank: nothing is cut
  kEven,         // every rank holds as many rows
  kOneMissing,   // all ranks have rows, the last one row fewer than the others
  kShortLast,    // all ranks have rows, the last two or more fewer
  kEmptyRanks,   // more rows than ranks, and still a rank without: 5 on 4 ranks are 2, 2, 1, 0
  kFewerRows,    // two rows or more, fewer than ranks
  kSingleRow,    // one row, two ranks or more
  kOtherEven,    // not dim 0 is cut (Shard(1), ...), evenly
  kOtherUneven,  // ... unevenly, which torch refuses
};

// Original dtype -> dtype that is computed with -> dtype of the reduction, by width alone (bf16 and
// fp16 count as one). Wide: 4 bytes an element; narrow: fewer. What a policy leaves open is the
// dtype before it.
enum class Dtypes {
  kWideAsIs,         // wide, no policy
  kNarrowAsIs,       // narrow, no policy
  kWideKept,         // wide, and a policy that asks for what is there
  kNarrowKept,       // the same for narrow
  kKeptReduced,      // computed as it is, reduced in another width
  kNarrowed,         // computed and reduced in a narrower dtype
  kNarrowedReduced,  // computed in a narrower dtype, reduced in another width
  kWidened,          // computed in a wider dtype
};

// reshard_after_forward of the parameter's group, by the root and by nested groups. As in torch, 1
// means false and the size of the shard group true, so int is a real factor.
enum class Reshard {
  kRootDefault,
  kRootTrue,
  kRootFalse,
  kRootInt,
  kNestedDefault,
  kNestedTrue,
  kNestedFalse,
  kNestedInt,
};

enum class MeshClass {
  kOne,     // one rank
  kTwo,     // two
  kOdd,     // three, five, ...
  kFourUp,  // four, six, ...
  kHsdp,    // any mesh with a replicate dimension
};

enum class StepsClass { kOne, kTwo, kMore };

// The experts of a call path that has them (dim 0) against W, the size of the shard group. The
// first that fits: for two ranks 3, 5, ... are "one over".
enum class Experts {
  kNone,      // no experts: dim 0 is something else
  kOne,       // a single one
  kBelow,     // two or more, fewer than W
  kMultiple,  // k W
  kOneOver,   // k W + 1
  kOneUnder,  // k W - 1, above W
  kOther,
};

// What the case does besides forward, backward, step, zero_grad.
enum class OperationsClass {
  kPlain,         // nothing
  kOddLoop,       // steps or zero_grads left out or moved; forward alone
  kAccumulation,  // several forwards or backwards before a step, with or without communication
  kUnshard,       // unshard() and reshard() by hand
  kAsync,         // unshard(async_op=True), _set_unshard_async_op
  kPrefetch,      // explicit prefetch, forward or backward
  kFreeze,        // requires_grad_ between steps
  kSaveLoad,      // state_dict, load_state_dict, full_tensor
  kMixed,         // two or more of the above
};

Evenness evenness_of(const ParamSpec& param, int shard_ranks);
Dtypes dtypes_of(DType original, const MixedPrecision& policy);
Reshard reshard_of(const ReshardAfterForward& reshard, bool is_root, int shard_ranks);
MeshClass mesh_class_of(const Mesh& mesh);
StepsClass steps_class_of(int steps);
Experts experts_of(const ParamSpec& param, int shard_ranks);
OperationsClass operations_class_of(const Case& c);

// What makes a case belong to the class; none for kPlain and kMixed.
std::vector<Feature> features_for(OperationsClass operations);

struct ClassName {
  std::string_view name;    // in cell names and files: "short_last"
  std::string_view phrase;  // for people: "last rank short by two rows or more"
};
// Of every axis but kHook, in the order of its enum.
std::vector<ClassName> class_names(Axis axis);

// One class for each axis, as a number in the order of its enum.
inline constexpr int kAnyClass = -1;
using DomainPoint = std::array<int, kAxisCount>;
inline int& at(DomainPoint& point, Axis axis) { return point[static_cast<std::size_t>(axis)]; }
inline int at(const DomainPoint& point, Axis axis) { return point[static_cast<std::size_t>(axis)]; }

}  // namespace shardfuzz
