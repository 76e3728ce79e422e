// Slots next to each other in the source, steps next to each other in the bytes: the maximum runs
// down columns and the bytes are turned over.
//
// A strip of columns 128 bytes wide belongs to a cluster of blocks, which share its steps. Each
// holds its rows in shared memory, so that the source is read once; the maxima meet through the
// cluster's distributed shared memory. In shared memory the eight 16-byte chunks of a row are
// exchanged by (row / kRows) % 8, so that a warp reads a column of chunks without bank conflicts,
// each lane kRows rows, which become 8 or 16 bytes of a slot next to each other.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_pipeline_primitives.h>

#include "kernels/quantize_job.cuh"
#include "kernels/recipe.cuh"

namespace shardfuzz::kernels {
namespace {

namespace cg = cooperative_groups;

constexpr int kThreads = 256;
constexpr int kChunks = kThreads / 32;  // of 16 bytes: one for each warp
constexpr int kRowBytes = kChunks * 16;
constexpr int kClusterMax = 16;  // more than 8 has to be asked for

// The rows of a strip that one block of the cluster works on.
struct Range {
  std::int64_t first;
  std::int64_t count;
};

// Even parts in units of 16 rows, so that what starts on 16 bytes of output goes on so.
__device__ Range range_of(std::int64_t steps, int blocks, int block) {
  const std::int64_t part = ((steps + blocks - 1) / blocks + 15) / 16 * 16;
  const std::int64_t first = part * block < steps ? part * block : steps;
  return {first, first + part < steps ? part : steps - first};
}

template <int kRows>
__device__ uint4* chunk_at(unsigned char* tile, int row, int chunk) {
  return reinterpret_cast<uint4*>(tile + row * kRowBytes + ((chunk ^ (row / kRows)) % 8) * 16);
}

// Rows first .. first + count of the strip; what the source does not have is zero.
template <typename Raw, int kRows>
__device__ void load_tile(unsigned char* tile, const Raw* strip, std::int64_t stride, int count,
                          std::int64_t columns) {
  constexpr int kSize = Vector<Raw>::kSize;
  const int chunk = threadIdx.x % kChunks;
  const bool inside = std::int64_t{chunk} * kSize < columns;
#pragma unroll 8
  for (int row = threadIdx.x / kChunks; row < 32 * kRows; row += kThreads / kChunks) {
    const bool real = inside && row < count;
    const Raw* from = real ? strip + row * stride + chunk * kSize : strip;
    __pipeline_memcpy_async(chunk_at<kRows>(tile, row, chunk), from, 16, real ? 0 : 16);
  }
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
}

struct Store {
  std::uint8_t* bytes;  // of the lane's first row
  std::int64_t stride;  // from slot to slot
  int rows;             // that exist
  bool aligned;
};

// kRows bytes of one slot.
template <int kRows>
__device__ void store_slot(std::uint8_t* out, const std::uint32_t* words, const Store& store) {
  if (store.aligned && store.rows >= kRows) {
    if constexpr (kRows == 16) {
      __stcs(reinterpret_cast<uint4*>(out), make_uint4(words[0], words[1], words[2], words[3]));
    } else {
      __stcs(reinterpret_cast<uint2*>(out), make_uint2(words[0], words[1]));
    }
    return;
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (row < store.rows) out[row] = static_cast<std::uint8_t>(words[row / 4] >> (row % 4 * 8));
  }
}

// The lane's rows of the warp's chunk: kSize slots of kRows bytes.
template <typename Raw, int kRows>
__device__ void convert(unsigned char* tile, const float* scales, std::int64_t slots,
                        const Store& store) {
  constexpr int kSize = Vector<Raw>::kSize;
  const int lane = threadIdx.x % 32, chunk = threadIdx.x / 32;
  std::uint32_t words[kSize][kRows / 4];
#pragma unroll
  for (int quad = 0; quad < kRows / 4; ++quad) {
    uint4 vectors[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      vectors[i] = *chunk_at<kRows>(tile, lane * kRows + quad * 4 + i, chunk);
    }
#pragma unroll
    for (int slot = 0; slot < kSize; ++slot) {
      const auto value = [&](int i) {
        return Vector<Raw>::element(vectors[i], slot) * scales[slot];
      };
      words[slot][quad] = e4m3_quad(value(0), value(1), value(2), value(3));
    }
  }
#pragma unroll
  for (int slot = 0; slot < kSize; ++slot) {
    if (slot < slots) store_slot<kRows>(store.bytes + slot * store.stride, words[slot], store);
  }
}

template <typename Raw, int kRows>
__device__ void add_maxima(unsigned char* tile, Maxima<Raw>* maxima) {
  const int lane = threadIdx.x % 32, chunk = threadIdx.x / 32;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    maxima->add(*chunk_at<kRows>(tile, lane * kRows + i, chunk));
  }
}

// 32 * kRows rows a tile. A block with more rows than one tile reads them twice.
template <typename Raw, int kRows>
__global__ void __launch_bounds__(kThreads, 3) columns_kernel(Job job) {
  constexpr int kSize = Vector<Raw>::kSize, kTileRows = 32 * kRows;
  extern __shared__ __align__(128) unsigned char tile[];
  __shared__ float of_block[kChunks * kSize];
  const cg::cluster_group cluster = cg::this_cluster();
  const int blocks = static_cast<int>(cluster.num_blocks());
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  const Part<Raw> part = part_of<Raw>(job, blockIdx.y);
  const std::int64_t first_slot =
      static_cast<std::int64_t>(blockIdx.x / blocks) * (kChunks * kSize);
  const std::int64_t columns = job.slots - first_slot;
  const Range range = range_of(part.steps, blocks, static_cast<int>(cluster.block_rank()));
  const Raw* strip = part.data + first_slot + range.first * job.from.step;
  const auto tile_count = [&](std::int64_t row) {
    return static_cast<int>(range.count - row < kTileRows ? range.count - row : kTileRows);
  };

  Maxima<Raw> maxima;
  for (std::int64_t row = 0; row < range.count; row += kTileRows) {
    if (row != 0) __syncthreads();
    load_tile<Raw, kRows>(tile, strip + row * job.from.step, job.from.step, tile_count(row),
                          columns);
    add_maxima<Raw, kRows>(tile, &maxima);
  }
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    const float amax = warp_max(maxima.element(i));
    if (lane == 0) of_block[warp * kSize + i] = amax;
  }
  cluster.sync();

  float scales[kSize];
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    const float* remote = cluster.map_shared_rank(of_block, lane < blocks ? lane : 0);
    scales[i] = encode_scale(warp_max(remote[warp * kSize + i]), job.power_of_two);
    const std::int64_t column = warp * kSize + i;
    if (lane == 0 && cluster.block_rank() == 0 && column < columns) {
      part.scales[first_slot + column] = scales[i];
    }
  }
  std::uint8_t* out = part.bytes + (first_slot + warp * kSize) * job.to.slot + range.first;
  const bool even = aligned(out, kRows) && job.to.slot % kRows == 0;
  for (std::int64_t row = 0; row < range.count; row += kTileRows) {
    if (range.count > kTileRows) {
      __syncthreads();
      load_tile<Raw, kRows>(tile, strip + row * job.from.step, job.from.step, tile_count(row),
                            columns);
    }
    convert<Raw, kRows>(tile, scales, columns - warp * kSize,
                        {.bytes = out + row + lane * kRows,
                         .stride = job.to.slot,
                         .rows = tile_count(row) - lane * kRows,
                         .aligned = even});
  }
  cluster.sync();  // a block that is gone has no shared memory to read from
}

template <typename Raw, int kRows>
bool launch(const Job& job, int blocks, cudaStream_t stream) {
  constexpr int kTileBytes = 32 * kRows * kRowBytes;
  const auto kernel = columns_kernel<Raw, kRows>;
  static const bool ready = [&] {
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kTileBytes) ==
               cudaSuccess &&
           cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) ==
               cudaSuccess;
  }();
  if (!ready) return false;
  constexpr std::int64_t kStrip = kChunks * Vector<Raw>::kSize;
  cudaLaunchAttribute cluster = {.id = cudaLaunchAttributeClusterDimension};
  cluster.val.clusterDim = {.x = static_cast<unsigned>(blocks), .y = 1, .z = 1};
  const cudaLaunchConfig_t config = {
      .gridDim = dim3(static_cast<unsigned>((job.slots + kStrip - 1) / kStrip * blocks),
                      static_cast<unsigned>(job.problems)),
      .blockDim = dim3(kThreads),
      .dynamicSmemBytes = kTileBytes,
      .stream = stream,
      .attrs = &cluster,
      .numAttrs = 1};
  return cudaLaunchKernelEx(&config, kernel, job) == cudaSuccess;
}

}  // namespace

template <typename Raw>
bool launch_columns(const Job& job, cudaStream_t stream) {
  constexpr int kSize = Vector<Raw>::kSize;
  if (job.from.slot != 1 || job.to.step != 1 || job.slots % kSize != 0) return false;
  if (job.from.step % kSize != 0 || job.from.problem % kSize != 0) return false;
  if (!aligned(job.data, 16) || job.problems > 65535) return false;
  // Groups differ in length: room for twice the mean before anything is read twice.
  const std::int64_t steps =
      job.ends == nullptr ? job.steps : 2 * ((job.steps + job.problems - 1) / job.problems);
  const bool small = steps <= 256 * kClusterMax / 4;
  const std::int64_t rows = small ? 256 : 512;
  int blocks = 1;
  while (blocks < kClusterMax && blocks * rows < steps) blocks *= 2;
  return small ? launch<Raw, 8>(job, blocks, stream) : launch<Raw, 16>(job, blocks, stream);
}

template bool launch_columns<float>(const Job& job, cudaStream_t stream);
template bool launch_columns<__nv_bfloat16>(const Job& job, cudaStream_t stream);

}  // namespace shardfuzz::kernels
