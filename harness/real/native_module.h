// The Python module `_shardfuzz`: what the rank program needs from C++.
//
//   next_index() -> int                     index of the next trace event
//   set_place(rank, step, operation, phase) where a rank is, for events written by C++
//   note_raised(rank)                       the rank's program ended by an exception
//   watch_unsharded(rank, tensors)          storages that count for the peak (buffer_watch.h)
//   record_memory(rank)                     writes Memory: an operation is over
//   digest(tensor) -> str                   harness/base/hash.h over the tensor's elements in order
//   fill(tensor, seed, place, range, integer)   data that depends on its arguments only
//   write_tags(tensor), count_tags(tensor)  tagged NaNs into padding; NaNs found (casts strip tags)
//   make_backend(member, key, name, ranks), rename_backend(backend, name)
//
// Built into the worker; registered before the interpreter starts.
#pragma once

#include <vector>

#include "harness/collective/buffer_watch.h"
#include "harness/collective/hub.h"
#include "harness/trace/recorder.h"

namespace shardfuzz {

// The run that the module's functions refer to; null between runs.
struct CurrentRun {
  Recorder* recorder = nullptr;
  Hub* hub = nullptr;
  std::vector<BufferWatch>* watches = nullptr;  // by rank
};
void set_current_run(CurrentRun run);

// Makes `import _shardfuzz` work; call before Py_Initialize.
void register_native_module();

}  // namespace shardfuzz
