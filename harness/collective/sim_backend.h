// SimBackend: the simulated process group, a c10d::Backend over the Hub.
//
// One of the files of harness/collective that know torch (with buffer_watch.h, device_lane.h). It
// turns each c10d call into a Call (what the ranks must agree on) and a Transfer (the bytes), and
// gives Work objects whose wait() follows the rules of hub.h, on a GPU those of device_lane.h too.
// Operations are those seen in torch 2.11 from
// FSDP2, DTensor and DeviceMesh; any other raises "does not support", as c10d does.
//
// Reductions are done in the tensor's dtype in member order: SUM adds; AVG multiplies each input by
// 1/n first, as NCCL does; PREMUL_SUM multiplies by the factor first. NCCL's order is unspecified,
// so only integer data on a power-of-two group compares bitwise with it.
//
// Thread rule: created and called by the rank that holds the baton (scheduler.h). The run whose hub
// is used is set by set_current_hub; process groups outlive runs, so that they need not be made
// again for each case.
#pragma once

#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "harness/collective/buffer_watch.h"
#include "harness/collective/device_lane.h"
#include "harness/collective/hub.h"

namespace shardfuzz {

void set_current_hub(Hub* hub);
// By global rank: what the buffers of the current run's collectives are shown to; null: nothing.
void set_current_watches(std::vector<BufferWatch>* watches);

class SimBackend : public c10d::Backend {
 public:
  SimBackend(int member, ProcessGroupId group);

  // Name for people, given once the mesh is known ("shard").
  void rename(const std::string& name) { group_.name = name; }

  const std::string getBackendName() const override { return "shardfuzz"; }
  bool supportsCoalescing() const override { return false; }

  using Tensors = std::vector<at::Tensor>;
  // Outputs, inputs of all members -> outputs written.
  using Give = std::function<void(Tensors& outputs, const std::vector<const Tensors*>& inputs)>;
  using Poison = std::function<void(Tensors& outputs)>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return 0; }

 private:
  void check_root(std::int64_t root) const;
  // `reduce_inputs`: of a reduction whose input is another buffer than its output.
  WorkPtr launch(Call call, Tensors inputs, const Tensors& outputs, Give give, Poison poison,
                 c10d::OpType type, const Tensors& reduce_inputs = {});

  ProcessGroupId group_;
  GroupStream stream_;
};

}  // namespace shardfuzz
