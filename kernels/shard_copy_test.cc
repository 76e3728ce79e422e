// Copies of padded shards: the round trip through a gather, and GPU against CPU at any alignment.
#include "kernels/shard_copy.h"

#include <numeric>

#include "kernels/test_device.h"

namespace shardfuzz::kernels {
namespace {

Bytes numbered(std::int64_t count, int first) {
  Bytes bytes(static_cast<std::size_t>(count));
  std::iota(bytes.begin(), bytes.end(), static_cast<std::uint8_t>(first));
  return bytes;
}

std::vector<const void*> starts_of(const std::vector<Bytes>& buffers) {
  std::vector<const void*> starts;
  for (const Bytes& buffer : buffers) starts.push_back(buffer.data());
  return starts;
}

TEST(ShardCopyCpu, RowsOfRankAsTorchChunk) {
  const auto rows = [](std::int64_t rows, int world) {
    std::vector<std::int64_t> list;
    for (int rank = 0; rank < world; ++rank) list.push_back(rows_of_rank({rows, 4}, world, rank));
    return list;
  };
  EXPECT_EQ(rows(5, 4), (std::vector<std::int64_t>{2, 2, 1, 0}));
  EXPECT_EQ(rows(4, 4), (std::vector<std::int64_t>{1, 1, 1, 1}));
  EXPECT_EQ(rows(1, 3), (std::vector<std::int64_t>{1, 0, 0}));
  EXPECT_EQ(rows(0, 2), (std::vector<std::int64_t>{0, 0}));
}

// Two parameters, 3 ranks: 4 rows of 2 bytes (2, 2, 0) and 2 rows of 3 bytes (1, 1, 0).
struct Gathered {
  std::vector<ShardedParam> params = {{4, 2}, {2, 3}};
  static constexpr int kWorld = 3;
};

TEST(ShardCopyCpu, CopyInPadsEachParameter) {
  const Gathered world;
  const std::vector<Bytes> shards = {{}, {7, 8, 9}};
  ASSERT_EQ(slot_bytes(world.params, Gathered::kWorld), 7);
  Bytes slot(7, 0xEE);
  copy_segments_cpu(copy_in_segments(world.params, Gathered::kWorld, 1,
                                     starts_of({{1, 2, 3, 4}, {7, 8, 9}}), slot.data()));
  EXPECT_EQ(slot, (Bytes{1, 2, 3, 4, 7, 8, 9}));
  copy_segments_cpu(
      copy_in_segments(world.params, Gathered::kWorld, 2, starts_of({{}, {}}), slot.data()));
  EXPECT_EQ(slot, (Bytes{0, 0, 0, 0, 0, 0, 0}));
}

TEST(ShardCopyCpu, CopyOutTakesRanksInOrder) {
  const Gathered world;
  const Bytes gathered = numbered(21, 1);
  std::vector<Bytes> padded = {Bytes(12), Bytes(9)};
  const std::vector<void*> out = {padded[0].data(), padded[1].data()};
  copy_segments_cpu(copy_out_segments(world.params, Gathered::kWorld, gathered.data(), out));
  EXPECT_EQ(padded[0], (Bytes{1, 2, 3, 4, 8, 9, 10, 11, 15, 16, 17, 18}));
  EXPECT_EQ(padded[1], (Bytes{5, 6, 7, 12, 13, 14, 19, 20, 21}));
}

TEST(ShardCopyCpu, ChunkCatCutsAndPads) {
  const Gathered world;
  Bytes out(21, 0xEE);
  copy_segments_cpu(chunk_cat_segments(world.params, Gathered::kWorld,
                                       starts_of({numbered(8, 1), numbered(6, 101)}), out.data()));
  EXPECT_EQ(out, (Bytes{1, 2, 3, 4, 101, 102, 103,  //
                        5, 6, 7, 8, 104, 105, 106,  //
                        0, 0, 0, 0, 0,   0,   0}));
}

TEST(ShardCopyCpu, AllGatherGivesEveryRankEveryPart) {
  const std::vector<Bytes> inputs = {{1, 2}, {3, 4}, {5, 6}};
  std::vector<Bytes> outputs(3, Bytes(6));
  const std::vector<void*> out = {outputs[0].data(), outputs[1].data(), outputs[2].data()};
  copy_segments_cpu(all_gather_segments(starts_of(inputs), 2, out));
  for (const Bytes& output : outputs) EXPECT_EQ(output, (Bytes{1, 2, 3, 4, 5, 6}));
}

TEST(ShardCopy, RefusesNullOfWhatIsNotEmpty) {
  int byte = 0;
  const std::vector<Segment> no_source = {{nullptr, &byte, 1}}, no_target = {{&byte, nullptr, 1}};
  const std::vector<Segment> zeros_nowhere = {{nullptr, nullptr, 0, 1}};
  EXPECT_EQ(copy_segments(no_source, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(copy_segments(no_target, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(copy_segments(zeros_nowhere, nullptr), cudaErrorInvalidValue);
}

// What the list does on the GPU and on the CPU to the same buffers.
void expect_gpu_as_cpu(const std::vector<Segment>& places, const Bytes& source, const Bytes& target,
                       std::size_t source_offset, std::size_t target_offset) {
  const DeviceBytes from(source, source_offset), to(target, target_offset);
  Bytes expected = target;
  std::vector<Segment> gpu, cpu;
  for (const Segment& place : places) {  // addresses are offsets until here
    const auto from_at = reinterpret_cast<std::uintptr_t>(place.from);
    const auto to_at = reinterpret_cast<std::uintptr_t>(place.to);
    gpu.push_back({from.data() + from_at, to.data() + to_at, place.bytes, place.zeros});
    cpu.push_back({source.data() + from_at, expected.data() + to_at, place.bytes, place.zeros});
  }
  EXPECT_CUDA(copy_segments(gpu, nullptr));
  copy_segments_cpu(cpu);
  EXPECT_EQ(first_difference(to.read(), expected), -1)
      << places.size() << " segments, offsets " << source_offset << " " << target_offset;
}

Segment place(std::uint64_t from, std::uint64_t to, std::uint64_t bytes, std::uint64_t zeros) {
  return {reinterpret_cast<const void*>(from), reinterpret_cast<void*>(to), bytes, zeros};
}

TEST(ShardCopy, EveryAlignmentAndSmallSize) {
  SHARDFUZZ_NEEDS_GPU();
  Random random(1);
  for (std::size_t from = 0; from < 16; ++from) {
    for (std::size_t to = 0; to < 16; ++to) {
      const std::uint64_t bytes = random.below(80), zeros = random.below(40);
      expect_gpu_as_cpu({place(0, 0, bytes, zeros)}, random_bytes(&random, bytes),
                        random_bytes(&random, bytes + zeros), from, to);
    }
  }
}

TEST(ShardCopy, RandomLists) {
  SHARDFUZZ_NEEDS_GPU();
  Random random(2);
  for (int i = 0; i < 300; ++i) {
    std::vector<Segment> places;
    std::uint64_t from = 0, to = 0;
    for (std::uint64_t left = random.below(200); left > 0; --left) {
      const std::uint64_t most = random.chance(2) ? 300000 : 100;
      const std::uint64_t bytes = random.below(most), zeros = random.below(most);
      places.push_back(place(from, to, bytes, zeros));
      from += bytes + random.below(3);
      to += bytes + zeros + random.below(3);
    }
    expect_gpu_as_cpu(places, random_bytes(&random, from), random_bytes(&random, to),
                      random.below(16), random.below(16));
  }
}

}  // namespace
}  // namespace shardfuzz::kernels
