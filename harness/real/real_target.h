// RealTarget: runs cases on real FSDP2 and real tensor subclasses, all ranks simulated in one
// process.
//
// Guarantees: run() returns a trace for every case that validate() accepts, whatever the code under
// test raises; the same case gives the same trace in any process. What kills the process (a signal,
// a hang, memory) is the business of the engine, which runs workers (harness/worker).
// Refused: `start` fails with an Error where Python, torch or torchao cannot be loaded.
// Thread rule: all calls from the one main thread, which holds no GIL between calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/base/result.h"
#include "harness/case/case.h"

namespace shardfuzz {

struct RealTargetOptions {
  std::string python;                   // interpreter whose packages are used
  std::string home;                     // folder that holds harness/real
  std::string device = "cpu";           // of the cases that will be run: "cpu" or "cuda"
  std::vector<std::string> pack_files;  // packs outside the project, from the command line
  // Mark here which lines and branches are reached (shardfuzz_real/coverage.py); empty: nowhere.
  std::string coverage_file;
  std::vector<std::string> covered_modules;  // besides those it names itself
};

class RealTarget {
 public:
  static Result<std::unique_ptr<RealTarget>> start(const RealTargetOptions& options);
  ~RealTarget();

  // JSON: {"torch": ..., "torchao": ..., "packs": [...]}; with a coverage file also "coverage":
  // what each of its bytes stands for.
  [[nodiscard]] std::string hello() const;

  // The trace as JSON (harness/trace/trace.h). With `shortcuts` PyTorch's profiler ranges and
  // pytree's general walk are left out (shardfuzz_real/shortcuts.py); the trace is the same.
  std::string run(const Case& c, bool shortcuts);

 private:
  struct State;
  explicit RealTarget(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace shardfuzz
