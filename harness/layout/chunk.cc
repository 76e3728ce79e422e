#include "harness/layout/chunk.h"

#include <algorithm>

#include "harness/base/check.h"

namespace shardfuzz::layout {

std::int64_t padded_rows(Split split) {
  SHARDFUZZ_CHECK(split.total >= 0 && split.ranks >= 1, "no split of {} rows over {} ranks",
                  split.total, split.ranks);
  return (split.total + split.ranks - 1) / split.ranks;
}

Rows chunk_of(Split split, int rank) {
  SHARDFUZZ_CHECK(rank >= 0 && rank < split.ranks, "rank {} of {}", rank, split.ranks);
  const std::int64_t rows = padded_rows(split);
  const std::int64_t offset = std::min(rows * rank, split.total);
  return {.offset = offset, .count = std::min(rows, split.total - offset)};
}

ShardClass class_of(Split split, int rank) {
  const std::int64_t count = chunk_of(split, rank).count;
  if (count == padded_rows(split)) return ShardClass::kFull;
  return count == 0 ? ShardClass::kEmpty : ShardClass::kShort;
}

std::string_view name_of(ShardClass shard_class) {
  switch (shard_class) {
    case ShardClass::kFull: return "full";
    case ShardClass::kShort: return "short";
    case ShardClass::kEmpty: return "empty";
  }
  SHARDFUZZ_CHECK(false, "unknown shard class");
}

bool is_even(Split split) { return split.total % split.ranks == 0; }

}  // namespace shardfuzz::layout
