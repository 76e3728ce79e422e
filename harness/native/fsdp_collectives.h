// The copies around FSDP2's collectives.
//
// Follows torch 2.11 _fsdp_collectives.py: foreach_all_gather, foreach_all_gather_copy_out,
// foreach_reduce and their helpers. Copies are on bytes; shapes are checked where the Python code's
// operators check them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "harness/native/comm.h"
#include "harness/native/fsdp_param.h"

namespace shardfuzz::native {

struct AllGatherResult {
  at::Tensor output;           // undefined in a world of one rank, which sends nothing
  std::unique_ptr<Work> work;  // of an async gather
  std::vector<std::vector<c10::ScalarType>> input_dtypes;  // by parameter
  std::vector<std::vector<std::int64_t>> input_numels;
  std::vector<std::int64_t> split_bytes;  // by input, as sent
};

using Params = std::vector<std::unique_ptr<FsdpParam>>;

AllGatherResult foreach_all_gather(const Params& params, Comm& comm, const GroupName& group,
                                   bool async_op, Observer& observer, const Planted& planted);
void foreach_all_gather_copy_out(AllGatherResult& result, const Params& params, int world_size,
                                 const Planted& planted);

struct ReduceOptions {
  std::optional<c10::ScalarType> orig_dtype, reduce_dtype;  // of the group
  bool has_replicas = false, all_reduce_grads = true;
};

// Buffers that the caller keeps beyond the call, as FSDP2 does for the sake of its streams.
struct KeptBuffers {
  at::Tensor* reduce_scatter_input;
  at::Tensor* all_reduce_input;  // left as it is where nothing is all-reduced
};

// Reduces `gradients` (of `params`, in order) and adds the shards to sharded_param's gradients.
// Returns the partial output that a skipped all-reduce leaves behind, else an undefined tensor.
at::Tensor foreach_reduce(const std::vector<FsdpParam*>& params, std::vector<at::Tensor> gradients,
                          Comm& comm, const ReduceOptions& options, at::Tensor partial_output,
                          const Planted& planted, const KeptBuffers& kept);

}  // namespace shardfuzz::native
