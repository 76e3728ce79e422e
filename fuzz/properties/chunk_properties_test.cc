// Laws of the chunk algebra (harness/layout/chunk.h), for any number of rows and ranks.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "fuzz/properties/property.h"
#include "harness/layout/chunk.h"

namespace shardfuzz::layout {

void showValue(const Split& split, std::ostream& out) {  // NOLINT(readability-identifier-naming)
  out << split.total << " rows on " << split.ranks << " ranks";
}

namespace {

constexpr int kRanksMax = 64;
constexpr std::int64_t kRowsMax = std::int64_t{1} << 40;

// Fewer rows than ranks, a few rows a rank, just off a multiple of the ranks, and huge.
Split any_split() {
  return *rc::gen::exec([] {
    const int ranks = *rc::gen::inRange(1, kRanksMax + 1);
    const std::int64_t few = *rc::gen::inRange<std::int64_t>(0, 4 * kRanksMax);
    const std::int64_t multiple = few * ranks + *rc::gen::inRange(-1, 2);
    const std::int64_t huge = *rc::gen::inRange<std::int64_t>(0, kRowsMax);
    return Split{.total = *rc::gen::element(few, std::max<std::int64_t>(0, multiple), huge),
                 .ranks = ranks};
  });
}

Split any_small_split() {
  return *rc::gen::exec([] {
    return Split{.total = *rc::gen::inRange<std::int64_t>(0, 200),
                 .ranks = *rc::gen::inRange(1, 20)};
  });
}

std::vector<Rows> chunks_of(Split split) {
  std::vector<Rows> chunks;
  for (int rank = 0; rank < split.ranks; ++rank) chunks.push_back(chunk_of(split, rank));
  return chunks;
}

RC_GTEST_PROP(Chunk, ChunksPartitionTheRowsInOrder, ()) {
  const Split split = any_split();
  std::int64_t next = 0;
  for (const Rows& chunk : chunks_of(split)) {
    RC_ASSERT(chunk.offset == next);
    RC_ASSERT(chunk.count >= 0);
    next += chunk.count;
  }
  RC_ASSERT(next == split.total);
}

RC_GTEST_PROP(Chunk, NoChunkIsLongerThanTheOneBeforeAndOnlyOneIsShort, ()) {
  const Split split = any_split();
  std::int64_t before = padded_rows(split);
  RC_ASSERT(chunk_of(split, 0).count == before);
  int short_chunks = 0;
  for (int rank = 0; rank < split.ranks; ++rank) {
    const std::int64_t count = chunk_of(split, rank).count;
    RC_ASSERT(count <= before);
    short_chunks += class_of(split, rank) == ShardClass::kShort;
    before = count;
  }
  RC_ASSERT(short_chunks <= 1);
}

RC_GTEST_PROP(Chunk, PaddingIsLessThanARowARank, ()) {
  const Split split = any_split();
  const std::int64_t padded = padded_rows(split) * split.ranks;
  RC_ASSERT(padded >= split.total);
  RC_ASSERT(padded < split.total + split.ranks);
}

RC_GTEST_PROP(Chunk, TheClassIsThatOfTheRowsThatARankHolds, ()) {
  const Split split = any_split();
  bool all_full = true;
  for (int rank = 0; rank < split.ranks; ++rank) {
    const std::int64_t count = chunk_of(split, rank).count;
    const ShardClass shard_class = class_of(split, rank);
    all_full = all_full && shard_class == ShardClass::kFull;
    RC_ASSERT((shard_class == ShardClass::kFull) == (count == padded_rows(split)));
    if (shard_class == ShardClass::kEmpty) RC_ASSERT(count == 0);
    if (shard_class == ShardClass::kShort) RC_ASSERT(count > 0);
  }
  RC_ASSERT(all_full == is_even(split));
}

// What FSDP2 relies on when it views the gathered buffer from its beginning: all padding is behind
// the last row.
RC_GTEST_PROP(Chunk, ShardsThatWerePaddedAndGatheredBeginWithTheWholeTensor, ()) {
  const Split split = any_small_split();
  const auto row_numel = static_cast<std::int64_t>(any_int(1, 3));
  constexpr std::int64_t kPadding = -1;
  std::vector<std::int64_t> whole(static_cast<std::size_t>(split.total * row_numel));
  std::iota(whole.begin(), whole.end(), 0);

  std::vector<std::int64_t> gathered, cut;
  for (const Rows& chunk : chunks_of(split)) {
    RC_ASSERT(chunk.offset + chunk.count <= split.total);
    RC_ASSERT(chunk.count >= 0 && chunk.count <= padded_rows(split));
    std::vector<std::int64_t> shard(static_cast<std::size_t>(padded_rows(split) * row_numel),
                                    kPadding);
    const auto first = whole.begin() + chunk.offset * row_numel;
    std::copy(first, first + chunk.count * row_numel, shard.begin());
    gathered.insert(gathered.end(), shard.begin(), shard.end());
    cut.insert(cut.end(), shard.begin(), shard.begin() + chunk.count * row_numel);
  }
  RC_ASSERT(cut == whole);
  RC_ASSERT(gathered.size() >= whole.size());
  const auto end = gathered.begin() + static_cast<std::ptrdiff_t>(whole.size());
  RC_ASSERT(std::equal(whole.begin(), whole.end(), gathered.begin(), end));
  RC_ASSERT(std::count(end, gathered.end(), kPadding) == gathered.end() - end);
}

RC_GTEST_PROP(Chunk, AWorldOfOneHoldsEverythingAndPadsNothing, ()) {
  const Split split{.total = *rc::gen::inRange<std::int64_t>(0, kRowsMax), .ranks = 1};
  RC_ASSERT(chunk_of(split, 0) == (Rows{.offset = 0, .count = split.total}));
  RC_ASSERT(padded_rows(split) == split.total);
}

}  // namespace
}  // namespace shardfuzz::layout

int main(int argc, char** argv) {
  return shardfuzz::run_properties(argc, argv, "max_success=3000");
}
