// Planted: bugs that can be switched on in the native target, one at a time, to see that fuzzing
// finds them (fuzz/planted, tools/bench --planted). All off is the faithful twin.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace shardfuzz::native {

enum class Bug : std::uint8_t {
  kNone,
  kPadByOtherDim,       // the padded hook pads to ceil(dim 1 / ranks) rows
  kStaleShortShard,     // a short rank goes on sending what it sent first
  kFreesNothing,        // reshard keeps the unsharded storage
  kReshardForgetsLast,  // reshard forgets the group's last parameter
  kDivideTwice,         // the gradient is divided by the group size once more
  kReduceInParamDtype,  // gradients are reduced in the dtype that they are computed in
  kStaleSecondGather,   // the second and later gathers keep the first one's data
  kSwapsSlots,          // the first two ranks' rows are exchanged in the copy-out
  kShortRankSkips,      // a rank without rows sends nothing
  kOrderSwapped,        // the last rank runs its modules' backward in another order
  kDropsLastRow,        // the last expert's gradient is lost
  kIgnoresOut,          // later gathers go into new tensors, `out` keeps its storage
  kForgetsAccumulated,  // the gradient of an unsynced backward is lost
  kFreezesWrongly,      // requires_grad is not carried to the unsharded parameter
  kStepsCopy,           // the optimizer's step goes to a copy of the shard
};
inline constexpr std::array<std::string_view, 16> kBugNames{"none",
                                                            "pad_by_other_dim",
                                                            "stale_short_shard",
                                                            "frees_nothing",
                                                            "reshard_forgets_last",
                                                            "divide_twice",
                                                            "reduce_in_param_dtype",
                                                            "stale_second_gather",
                                                            "swaps_slots",
                                                            "short_rank_skips",
                                                            "order_swapped",
                                                            "drops_last_row",
                                                            "ignores_out",
                                                            "forgets_accumulated",
                                                            "freezes_wrongly",
                                                            "steps_copy"};

struct Planted {
  Bug bug = Bug::kNone;
  [[nodiscard]] bool is(Bug other) const { return bug == other; }
};

inline std::optional<Bug> bug_of(std::string_view name) {
  for (std::size_t i = 0; i < kBugNames.size(); ++i) {
    if (kBugNames[i] == name) return static_cast<Bug>(i);
  }
  return std::nullopt;
}

}  // namespace shardfuzz::native
