// NativeTarget: runs a case on the C++ twin of FSDP2, all ranks as fibers of the calling thread.
//
// Guarantees: the same case gives the same trace; the trace is the one that the real target gives,
// event by event, but for the exceptions that fuzz/twin_exceptions.h lists (`shardfuzz twin` holds
// this). Refused: cases that unsupported() (supported.h) names. Thread rule: one thread an object.
// Use:  NativeTarget target;  if (!unsupported(c)) trace = target.run(c);
#pragma once

#include <memory>

#include "harness/case/case.h"
#include "harness/native/planted.h"
#include "harness/trace/trace.h"

namespace shardfuzz::native {

class NativeTarget {
 public:
  explicit NativeTarget(Planted planted = {});
  ~NativeTarget();

  // The case must be valid and supported (checked).
  Trace run(const Case& c);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardfuzz::native
