#include "kernels/shard_copy.h"

#include <algorithm>
#include <cstring>

namespace shardfuzz::kernels {
namespace {

const char* at(const void* base, std::int64_t bytes) {
  return static_cast<const char*>(base) + bytes;
}
char* at(void* base, std::int64_t bytes) { return static_cast<char*>(base) + bytes; }

std::int64_t padded_rows(const ShardedParam& param, int world) {
  return (param.rows + world - 1) / world;
}

std::int64_t padded_bytes(const ShardedParam& param, int world) {
  return padded_rows(param, world) * param.row_bytes;
}

Segment padded_segment(const void* from, void* to, std::int64_t bytes, std::int64_t padded) {
  return {.from = from,
          .to = to,
          .bytes = static_cast<std::uint64_t>(bytes),
          .zeros = static_cast<std::uint64_t>(padded - bytes)};
}

}  // namespace

std::int64_t rows_of_rank(const ShardedParam& param, int world, int rank) {
  const std::int64_t chunk = padded_rows(param, world);
  return std::clamp<std::int64_t>(param.rows - chunk * rank, 0, chunk);
}

std::int64_t slot_bytes(std::span<const ShardedParam> params, int world) {
  std::int64_t bytes = 0;
  for (const ShardedParam& param : params) bytes += padded_bytes(param, world);
  return bytes;
}

std::vector<Segment> copy_in_segments(std::span<const ShardedParam> params, int world, int rank,
                                      std::span<const void* const> shards, void* slot) {
  std::vector<Segment> segments;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const std::int64_t padded = padded_bytes(params[i], world);
    segments.push_back(padded_segment(shards[i], at(slot, offset),
                                      rows_of_rank(params[i], world, rank) * params[i].row_bytes,
                                      padded));
    offset += padded;
  }
  return segments;
}

std::vector<Segment> copy_out_segments(std::span<const ShardedParam> params, int world,
                                       const void* gathered, std::span<void* const> padded) {
  std::vector<Segment> segments;
  const std::int64_t slot = slot_bytes(params, world);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const std::int64_t bytes = padded_bytes(params[i], world);
    for (int rank = 0; rank < world; ++rank) {
      segments.push_back(padded_segment(at(gathered, slot * rank + offset),
                                        at(padded[i], bytes * rank), bytes, bytes));
    }
    offset += bytes;
  }
  return segments;
}

std::vector<Segment> chunk_cat_segments(std::span<const ShardedParam> params, int world,
                                        std::span<const void* const> gradients, void* out) {
  std::vector<Segment> segments;
  const std::int64_t slot = slot_bytes(params, world);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const std::int64_t padded = padded_bytes(params[i], world);
    for (int rank = 0; rank < world; ++rank) {
      const std::int64_t bytes = rows_of_rank(params[i], world, rank) * params[i].row_bytes;
      // A rank without rows names the start: there is nothing at the end to point at.
      segments.push_back(padded_segment(at(gradients[i], bytes == 0 ? 0 : padded * rank),
                                        at(out, slot * rank + offset), bytes, padded));
    }
    offset += padded;
  }
  return segments;
}

std::vector<Segment> all_gather_segments(std::span<const void* const> inputs, std::uint64_t bytes,
                                         std::span<void* const> outputs) {
  std::vector<Segment> segments;
  for (void* output : outputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      segments.push_back({.from = inputs[i],
                          .to = at(output, static_cast<std::int64_t>(bytes * i)),
                          .bytes = bytes});
    }
  }
  return segments;
}

void copy_segments_cpu(std::span<const Segment> segments) {
  for (const Segment& segment : segments) {
    if (segment.bytes != 0) std::memcpy(segment.to, segment.from, segment.bytes);
    if (segment.zeros != 0) {
      std::memset(static_cast<char*>(segment.to) + segment.bytes, 0, segment.zeros);
    }
  }
}

}  // namespace shardfuzz::kernels
