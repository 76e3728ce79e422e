// FsdpParam: one sharded parameter on one rank.
//
// Follows torch 2.11 torch/distributed/fsdp/_fully_shard/_fsdp_param.py, class FSDPParam; a
// function here has the name of the one that it follows, and raises (PyError, c10::Error) where and
// as that one does. Left out: DTensor parameters (TP), torch.compile, pinned memory and meta
// tensors. It shares no code with harness/layout, which is what it is judged by.
//
// Gradients: autograd is not run. The program (program.h) computes them and calls
// accumulate_gradient, as an AccumulateGrad node would.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "harness/case/case.h"
#include "harness/native/comm.h"
#include "harness/native/observer.h"
#include "harness/native/planted.h"
#include "harness/native/weight.h"

namespace shardfuzz::native {

enum class ShardedState { kSharded, kShardedPostForward, kUnsharded };

struct MeshFacts {
  int shard_size = 1, shard_rank = 0;
  int world_size = 1;         // of the whole mesh
  int post_forward_size = 0;  // 0: none, shard_size: the same mesh
  int post_forward_rank = 0;
};

class FsdpParam {
 public:
  // `full` holds the parameter's original data; rows are copied.
  FsdpParam(const GroupSpec& group, const ParamSpec& spec, const at::Tensor& full,
            const MeshFacts& mesh, const Planted& planted, Observer* observer);

  void init_dtype_attrs(const MixedPrecision& policy);
  void reset_sharded_param();

  // What this rank sends, flat, for one parameter.
  std::vector<at::Tensor> all_gather_inputs();
  // The fast path of _get_param_all_gather_inputs takes `sent` from a buffer that it filled itself.
  void note_foreach_input(const at::Tensor& sent);
  [[nodiscard]] bool use_foreach_copy() const;
  [[nodiscard]] const at::Tensor& foreach_source() const;

  void init_all_gather_outputs(const std::vector<std::int64_t>& numels,
                               const std::vector<c10::ScalarType>& dtypes, int world_size);
  void alloc_all_gather_outputs();
  void init_unsharded_param();

  void to_sharded();
  void to_sharded_post_forward();
  void to_unsharded();

  void to_accumulated_grad_if_needed();
  void accumulate_unsharded_grad_if_needed();
  void accumulate_gradient(const at::Tensor& gradient);

  [[nodiscard]] std::string key() const { return group_->name + "." + spec_->name; }
  [[nodiscard]] std::int64_t unsharded_bytes() const;
  [[nodiscard]] std::int64_t unsharded_gradient_bytes() const;

  const GroupSpec* group_;
  const ParamSpec* spec_;
  const Planted* planted_;
  Observer* observer_;
  MeshFacts mesh_;
  WeightKind kind = WeightKind::kPlain;
  int shard_dim = 0;
  Shape orig_size, contiguous_orig_stride;
  Shape sharded_size, padded_sharded_param_size, sharded_post_forward_size;
  c10::ScalarType orig_dtype = c10::ScalarType::Float;
  std::optional<c10::ScalarType> policy_param_dtype, param_dtype, reduce_dtype;

  ShardedState sharded_state = ShardedState::kSharded;
  at::Tensor sharded_param_data;               // padded, in the padded shape
  at::Tensor sharded_param;                    // the local shard: a view of it
  bool requires_grad = true;                   // of sharded_param
  at::Tensor grad;                             // of sharded_param; undefined: None
  at::Tensor post_forward_data;                // 1D; undefined: none
  std::vector<at::Tensor> all_gather_outputs;  // 1D
  std::vector<at::Tensor> unsharded_inner_tensors;
  at::Tensor unsharded_param;  // undefined before the first gather
  bool unsharded_requires_grad = false;
  at::Tensor unsharded_grad, unsharded_accumulated_grad;

 private:
  void init_sharded_param(const at::Tensor& full);
  void init_post_forward_size();
  [[nodiscard]] std::vector<at::Tensor> extension_inputs();
  void check_inputs(const std::vector<at::Tensor>& inputs) const;
  [[nodiscard]] std::vector<at::Tensor> unflatten_all_gather_outputs() const;
  void free_unsharded_param();

  std::vector<Shape> all_gather_input_sizes_;
  std::vector<at::Tensor> first_inputs_;  // for Bug::kStaleShortShard
};

// One chunk of torch.chunk along a dimension, or an empty one (_fsdp_common._chunk_with_empty).
struct Chunk {
  std::int64_t start = 0, length = 0;
};
Chunk chunk_of(std::int64_t size, int chunk_count, int index);

c10::ScalarType scalar_type_of(DType dtype);

}  // namespace shardfuzz::native
