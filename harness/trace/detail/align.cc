#include "harness/trace/detail/align.h"

#include <algorithm>
#include <span>

namespace shardfuzz {
namespace {

using Items = std::span<const AlignItem>;

// A pair counts more than all equal contents of two windows together.
constexpr std::uint32_t kPairScore = 2 * kAlignWindow;

std::uint32_t score(const AlignItem& left, const AlignItem& right) {
  return left == right ? kPairScore + 1 : kPairScore;
}

// By dynamic programming over all places of two windows; positions are those within the windows.
std::vector<AlignedPair> align_windows(Items left, Items right) {
  const std::size_t columns = right.size() + 1;
  // best[i * columns + j]: the score that left from i on and right from j on can reach.
  std::vector<std::uint32_t> best((left.size() + 1) * columns);
  for (std::size_t i = left.size(); i-- > 0;) {
    for (std::size_t j = right.size(); j-- > 0;) {
      std::uint32_t* here = &best[i * columns + j];
      *here = std::max(here[columns], here[1]);
      if (left[i].key != right[j].key) continue;
      *here = std::max(*here, here[columns + 1] + score(left[i], right[j]));
    }
  }
  std::vector<AlignedPair> pairs;
  for (std::size_t i = 0, j = 0; i < left.size() && j < right.size();) {
    const std::uint32_t* here = &best[i * columns + j];
    if (left[i].key == right[j].key && *here == here[columns + 1] + score(left[i], right[j])) {
      pairs.push_back({i++, j++});
    } else if (*here == here[columns]) {
      ++i;
    } else {
      ++j;
    }
  }
  return pairs;
}

}  // namespace

std::vector<AlignedPair> align(const std::vector<AlignItem>& left,
                               const std::vector<AlignItem>& right) {
  // Equal elements at both ends can always be paired without loss.
  std::size_t left_end = left.size(), right_end = right.size();
  std::size_t i = 0, j = 0;
  std::vector<AlignedPair> pairs;
  while (i < left_end && j < right_end && left[i] == right[j]) pairs.push_back({i++, j++});
  while (left_end > i && right_end > j && left[left_end - 1] == right[right_end - 1]) {
    --left_end, --right_end;
  }
  while (i < left_end && j < right_end) {
    const std::size_t left_size = std::min(kAlignWindow, left_end - i);
    const std::size_t right_size = std::min(kAlignWindow, right_end - j);
    const std::vector<AlignedPair> found =
        align_windows(Items(left).subspan(i, left_size), Items(right).subspan(j, right_size));
    for (const AlignedPair& pair : found) pairs.push_back({i + pair.left, j + pair.right});
    const bool left_is_whole = i + left_size == left_end;
    const bool right_is_whole = j + right_size == right_end;
    if (left_is_whole && right_is_whole) break;
    if (!found.empty()) {
      i = pairs.back().left + 1, j = pairs.back().right + 1;
      continue;
    }
    if (!left_is_whole) i += left_size;
    if (!right_is_whole) j += right_size;
  }
  for (; left_end < left.size(); ++left_end, ++right_end) pairs.push_back({left_end, right_end});
  return pairs;
}

}  // namespace shardfuzz
