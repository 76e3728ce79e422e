// Copies of uneven, padded shards: what FSDP2 does around an all-gather and before a
// reduce-scatter, as lists of segments (bytes to copy, then bytes of zero), and one kernel that
// runs any list.
//
//   copy-in     one rank's shards, each padded to the longest shard of its parameter, into that
//               rank's slot of the gather buffer        (torch: _fsdp_collectives.py,
//                                                         all_gather_copy_in)
//   copy-out    a gathered buffer (world, slot) into one buffer a parameter, ranks one after the
//               other                                    (split_with_sizes_copy)
//   chunk-cat   whole gradients, cut into `world` chunks on dim 0 and padded, into the input of a
//               reduce-scatter (world, slot)             (aten::_chunk_cat)
//   all-gather  every rank's slot into every rank's buffer, for ranks that share a GPU
//
// Guarantees: any alignment, any size, 0 included; 16 bytes at a time, also where source and target
// are aligned differently (two aligned reads and a shift); no byte outside a segment is read or
// written. Segments of one list must not overlap in their targets: they run in any order.
// Refuses (cudaErrorInvalidValue): a null pointer of a segment that is not empty.
// Lengths in bytes; a parameter's row is everything behind dim 0.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

namespace shardfuzz::kernels {

struct Segment {
  const void* from;
  void* to;
  std::uint64_t bytes;
  std::uint64_t zeros = 0;  // after them
};

cudaError_t copy_segments(std::span<const Segment> segments, cudaStream_t stream);
void copy_segments_cpu(std::span<const Segment> segments);

// One parameter sharded on dim 0 over `world` ranks as torch.chunk cuts it: each rank has
// ceil(rows / world) rows until they run out.
struct ShardedParam {
  std::int64_t rows;
  std::int64_t row_bytes;
};
std::int64_t rows_of_rank(const ShardedParam& param, int world, int rank);
std::int64_t slot_bytes(std::span<const ShardedParam> params, int world);

std::vector<Segment> copy_in_segments(std::span<const ShardedParam> params, int world, int rank,
                                      std::span<const void* const> shards, void* slot);
std::vector<Segment> copy_out_segments(std::span<const ShardedParam> params, int world,
                                       const void* gathered, std::span<void* const> padded);
std::vector<Segment> chunk_cat_segments(std::span<const ShardedParam> params, int world,
                                        std::span<const void* const> gradients, void* out);
std::vector<Segment> all_gather_segments(std::span<const void* const> inputs, std::uint64_t bytes,
                                         std::span<void* const> outputs);

}  // namespace shardfuzz::kernels
