// What `shardfuzz fuzz` prints: progress and summary on stderr, failures on stdout.
//
// Guarantees: on a terminal the progress line is overwritten; elsewhere there is one every ten
// seconds. With --json stdout holds one line of JSON a failure and nothing else.
#pragma once

#include <cstddef>

#include "fuzz/engine.h"
#include "tools/fuzz_options.h"

namespace shardfuzz {

class FuzzDisplay {
 public:
  explicit FuzzDisplay(const FuzzOptions& options);

  void progress(const EngineStats& stats, std::size_t failures, std::size_t known);
  void found(const Failure& failure) const;
  void done(const Failure& failure) const;
  void clear_line() const;
  void summary(const EngineResult& result) const;

 private:
  void print_json(const Failure& failure) const;

  const FuzzOptions& options_;
  const bool terminal_;
  double last_ = 0;
};

}  // namespace shardfuzz
