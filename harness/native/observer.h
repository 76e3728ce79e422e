// Observer: writes the events of one rank of the native target, in the format and at the places of
// harness/real/shardfuzz_real/observe.py.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/collective/buffer_watch.h"
#include "harness/trace/recorder.h"

namespace shardfuzz::native {

class FsdpParam;

class Observer {
 public:
  Observer(int rank, Recorder* recorder, BufferWatch* watch)
      : rank_(rank), recorder_(recorder), watch_(watch) {}

  void place(int step, int operation, const std::string& phase) {
    recorder_->set_place(rank_, step, operation, phase);
  }
  void record(Payload payload) { recorder_->record(rank_, std::move(payload)); }

  void sharded(const FsdpParam& param);
  // `inputs` in the shapes that the hook gave them.
  void pre_all_gather(FsdpParam& param, const std::vector<at::Tensor>& inputs);
  void unsharded(const FsdpParam& param);
  void storage(const FsdpParam& param, const char* at);
  void memory() { record(watch_->take()); }  // at the end of an operation

  [[nodiscard]] int rank() const { return rank_; }
  // The parameter that is being handled, for Raised.
  const FsdpParam* current = nullptr;

 private:
  int rank_;
  Recorder* recorder_;
  BufferWatch* watch_;
};

}  // namespace shardfuzz::native
