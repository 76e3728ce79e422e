// ExploreWorker: a libFuzzer process as the explorer of `shardfuzz fuzz --engine coverage`.
//
// Speaks shardfuzz_native_worker's protocol (harness/worker/frame.h): says hello, takes "explore"
// requests, and answers each after as many executions as it asks for. Between an answer and the
// next request libFuzzer stands still, so what it finds depends on its seed and corpus alone, not
// on how fast the engine is. The series of the first request says what is generated; `first` is not
// looked at: executions are numbered from the start of the process. Ends the process when the
// engine says quit or is gone. A request that is none of this is told on stderr; the process ends.
// Thread rule: one thread.
// Use:  ExploreWorker worker = ExploreWorker::begin();  worker.series() ...
//       worker.note(c, verdict);  // after each execution
#pragma once

#include <cstdint>
#include <string>

#include "fuzz/explore.h"

namespace shardfuzz {

class ExploreWorker {
 public:
  static ExploreWorker begin();  // waits for the first request

  [[nodiscard]] const CaseSeries& series() const { return request_.series; }
  // An execution whose case was run, or was not: `unsupported` says why.
  void note(Case c, const Verdict& verdict);
  void note_skipped(const std::string& unsupported);

 private:
  void count_execution();
  void take_request();

  ExploreRequest request_;
  ExploreAnswer answer_;
  std::int64_t executions_ = 0, of_range_ = 0;
};

}  // namespace shardfuzz
