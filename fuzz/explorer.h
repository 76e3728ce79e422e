// Explorer: the native target runs far more cases than the real one can; this asks it for them.
//
// A worker process of its own runs ranges of a case series on the native target (explore.h), one
// range ahead of the engine. Guarantees: the answers depend on the series alone: the n-th take()
// gives range n, however long it took. Where the worker dies in a range, its cases are given up and
// counted. Thread rule: that of WorkerPool.
// Use:  Explorer explorer(options, series, 512);  explorer.start();  ... explorer.take() ...
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fuzz/explore.h"
#include "fuzz/runner.h"

namespace shardfuzz {

class Explorer {
 public:
  Explorer(const RunnerOptions& native, CaseSeries series, std::int64_t cases_per_range);
  ~Explorer();

  // Sends the next range.
  Status start();
  // Waits for the range that was sent. No cases: it was lost, or the twin can run none of them.
  Result<ExploreAnswer> take();
  void shutdown();

  [[nodiscard]] Case case_of(std::int64_t number) const { return numbered_case(series_, number); }
  [[nodiscard]] std::int64_t lost_ranges() const { return lost_ranges_; }

 private:
  RunnerOptions options_;
  CaseSeries series_;
  std::int64_t cases_per_range_;
  std::int64_t next_range_ = 0, lost_ranges_ = 0;
  std::unique_ptr<Clock> clock_;
  std::unique_ptr<WorkerPool> pool_;
};

}  // namespace shardfuzz
