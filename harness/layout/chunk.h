// Chunk algebra: who holds which rows of a dimension that is sharded over ranks.
//
// The rule is that of torch.chunk with empty chunks added, which FSDP2 uses
// (torch/distributed/fsdp/_fully_shard/_fsdp_common.py, _chunk_with_empty): every chunk but the
// last ones has ceil(total / ranks) rows, one may be short, the rest are empty. Chunk 0's size is
// what every rank is padded to. Exhaustively compared with torch for 0..64 rows on 1..16 ranks.
// Integers only; total >= 0, ranks >= 1, 0 <= rank < ranks (checked).
// Use:  const Rows mine = chunk_of({.total = 5, .ranks = 2}, 1);   // {3, 2}
#pragma once

#include <cstdint>
#include <string_view>

namespace shardfuzz::layout {

struct Split {
  std::int64_t total = 0;  // rows of the full tensor
  int ranks = 1;
};

struct Rows {
  std::int64_t offset = 0, count = 0;
  bool operator==(const Rows&) const = default;
};

std::int64_t padded_rows(Split split);  // rows that every rank sends
Rows chunk_of(Split split, int rank);   // rows that a rank really holds

// How a rank's shard compares with the padded one.
enum class ShardClass { kFull, kShort, kEmpty };
ShardClass class_of(Split split, int rank);
std::string_view name_of(ShardClass shard_class);  // "full", "short", "empty"

// True where every rank is full.
bool is_even(Split split);

}  // namespace shardfuzz::layout
