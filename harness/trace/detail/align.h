// Which elements of two lists belong together: a longest common subsequence.
//
// Guaranteed: the pairs rise in both lists and join elements of equal key. As many as can be are
// paired and, of those choices, as many as can be with equal content too, if between places where
// the lists are equal they have at most kAlignWindow elements. Longer unequal stretches are worked
// through window by window, which bounds time and memory (a few megabytes) and may miss pairs that
// lie further apart than a window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardfuzz {

// Events of one rank in one run: about 100, at most some thousands.
inline constexpr std::size_t kAlignWindow = 1024;

struct AlignItem {
  int key = 0;
  std::uint64_t content = 0;  // decides between elements of one key
  bool operator==(const AlignItem&) const = default;
};

struct AlignedPair {
  std::size_t left = 0, right = 0;  // positions
  bool operator==(const AlignedPair&) const = default;
};

std::vector<AlignedPair> align(const std::vector<AlignItem>& left,
                               const std::vector<AlignItem>& right);

}  // namespace shardfuzz
