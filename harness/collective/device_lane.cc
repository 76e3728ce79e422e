#include "harness/collective/device_lane.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace shardfuzz {
namespace {

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

std::optional<c10::Device> device_of(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && !tensor.is_cpu()) return tensor.device();
  }
  return std::nullopt;
}

}  // namespace

c10::Stream GroupStream::on(c10::Device device) {
  if (!stream_ || stream_->device() != device) {
    stream_ = c10::impl::VirtualGuardImpl(device.type()).getNewStream(device);
  }
  return *stream_;
}

DeviceLane::DeviceLane(const std::vector<at::Tensor>& inputs,
                       const std::vector<at::Tensor>& outputs, GroupStream* group) {
  std::optional<c10::Device> device = device_of(outputs);
  if (!device) device = device_of(inputs);
  if (!device) return;
  stream_ = group->on(*device);
  ready_.emplace(device->type());
  ready_->record(current_stream(*device));
}

DeviceLane::Movement::Movement(DeviceLane* lane, const std::vector<DeviceLane*>& after)
    : lane_(lane) {
  if (!lane_->stream_) return;
  for (const DeviceLane* other : after) {
    if (other->ready_) other->ready_->block(*lane_->stream_);
  }
  guard_.emplace(*lane_->stream_);
}

void DeviceLane::Movement::uses(const at::Tensor& tensor) const {
  if (lane_->stream_ && !tensor.is_cpu()) tensor.record_stream(*lane_->stream_);
}

DeviceLane::Movement::~Movement() {
  guard_.reset();
  if (lane_->stream_) lane_->ready_->record(*lane_->stream_);
}

void DeviceLane::wait() const {
  if (stream_) ready_->block(current_stream(stream_->device()));
}

}  // namespace shardfuzz
