// DeviceLane: orders the data movement of one rank's collective on the streams of a GPU.
//
// As ProcessGroupNCCL does (torch 2.11, ProcessGroupNCCL.cpp: collective(), syncStream(),
// WorkNCCL::synchronize): a launch records an event on the caller's current stream; the movement
// runs on a stream of the process group's own after the events of all members; wait() makes the
// stream that is current at the wait go on after it. The host does not wait. So what the code under
// test forgets to order may be seen out of order, as in real life. Of a buffer in the host's memory
// a lane orders nothing: that movement is done when the call returns.
//
// It uses c10's streams and events, which are those of the device's library once Python has loaded
// it; nothing here links with CUDA. One of the files of harness/collective that know torch.
//
// Thread rule: on the thread of the rank that holds the baton (hub.h); events may be waited for on
// another thread than the one that recorded them.
#pragma once

#include <ATen/core/TensorBody.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <optional>
#include <vector>

namespace shardfuzz {

// The stream of one rank in one process group, made when it is first needed.
class GroupStream {
 public:
  c10::Stream on(c10::Device device);

 private:
  std::optional<c10::Stream> stream_;
};

class DeviceLane {
 public:
  // At the launch. Without a tensor on a device the lane orders nothing.
  DeviceLane(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs,
             GroupStream* group);

  // While it lives, what is called runs on the group's stream after all that `after` say.
  class Movement {
   public:
    Movement(DeviceLane* lane, const std::vector<DeviceLane*>& after);
    // What the movement reads or writes stays allocated until the stream is past it.
    void uses(const at::Tensor& tensor) const;
    ~Movement();
    Movement(const Movement&) = delete;
    Movement& operator=(const Movement&) = delete;

   private:
    DeviceLane* lane_;
    std::optional<c10::StreamGuard> guard_;
  };

  // The stream that is current here goes on after the last movement.
  void wait() const;

 private:
  std::optional<c10::Stream> stream_;  // of the group; none: nothing is on a device
  std::optional<c10::Event> ready_;    // the launch, then the last movement
};

}  // namespace shardfuzz
