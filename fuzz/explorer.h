// Explorer: the native target runs far more cases than the real one can; this asks it for them.
//
// A worker process of its own runs ranges of a case series on the native target (explore.h), one
// range ahead of the engine. Where `native.worker` is the libFuzzer target native_case, the cases
// are those that it comes to, and a range is so many of its executions. Guarantees: the answers
// depend on the series alone: the n-th take() gives range n, however long it took. Where the worker
// dies in a range, its cases are given up and counted; after kLostRangesMax of them in a row take()
// gives an Error. Thread rule: that of WorkerPool. Use:  Explorer explorer(options, series, 512);
// explorer.start();  ... explorer.take() ...
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "fuzz/explore.h"
#include "fuzz/runner.h"

namespace shardfuzz {

inline constexpr int kLostRangesMax = 3;

class Explorer {
 public:
  Explorer(const RunnerOptions& native, CaseSeries series, std::int64_t cases_per_range,
           std::int64_t first_range = 0);
  ~Explorer();

  // Sends the next range.
  Status start();
  // Waits for the range that was sent, or until `stop` says so (no cases then). No cases: the twin
  // can run none of them, or was_lost.
  Result<ExploreAnswer> take(const std::function<bool()>& stop = {});
  void shutdown();

  [[nodiscard]] std::int64_t lost_ranges() const { return lost_ranges_; }
  // Resident memory of the worker after the last range.
  [[nodiscard]] std::int64_t rss_bytes() const { return rss_bytes_; }

 private:
  RunnerOptions options_;
  CaseSeries series_;
  std::int64_t cases_per_range_;
  std::int64_t next_range_, lost_ranges_ = 0;
  std::int64_t rss_bytes_ = 0;
  int lost_in_a_row_ = 0;
  std::unique_ptr<Clock> clock_;
  std::unique_ptr<WorkerPool> pool_;
};

}  // namespace shardfuzz
