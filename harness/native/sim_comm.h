// SimComm: the simulated process group for the native target, over the Hub of harness/collective.
//
// The same rules as SimBackend (harness/collective/sim_backend.h), which serves the real target, on
// raw buffers instead of tensors: reductions in the buffer's dtype in member order, AVG multiplies
// each input by 1/n first, poison as there. `shardfuzz twin` compares the two event by event.
//
// Thread rule: one object a rank, used while that rank runs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/case/case.h"
#include "harness/collective/buffer_watch.h"
#include "harness/collective/hub.h"
#include "harness/native/comm.h"

namespace shardfuzz::native {

class SimComm : public Comm {
 public:
  // `watch` is shown the buffers of every collective.
  SimComm(const Mesh& mesh, int rank, Hub* hub, BufferWatch* watch);

  [[nodiscard]] int size(const GroupName& group) const override;
  [[nodiscard]] int rank(const GroupName& group) const override;
  [[nodiscard]] bool has_replicas() const override { return has_replicas_; }
  std::unique_ptr<Work> all_gather(const GroupName& group, Buffer output, Buffer input) override;
  std::unique_ptr<Work> all_gather_coalesced(const GroupName& group, Buffer output,
                                             Buffer input) override;
  std::unique_ptr<Work> reduce_scatter(Buffer output, Buffer input, ReduceKind kind) override;
  std::unique_ptr<Work> all_reduce(Buffer buffer, ReduceKind kind) override;

 private:
  [[nodiscard]] const ProcessGroupId& group_of(const GroupName& group) const;
  struct WatchedBuffers {
    BufferRole role = BufferRole::kGatherOutput;  // of the output
    const Buffer* output = nullptr;
    const Buffer* reduce_input = nullptr;  // null: none, or the output itself
  };
  std::unique_ptr<Work> launch(const GroupName& group, Call call,
                               std::unique_ptr<Transfer> transfer, const WatchedBuffers& buffers);

  int rank_;
  int shard_size_;
  bool has_replicas_;
  Hub* hub_;
  BufferWatch* watch_;
  ProcessGroupId shard_, replicate_;
  mutable std::map<int, ProcessGroupId> post_forward_;  // by owner
};

}  // namespace shardfuzz::native
