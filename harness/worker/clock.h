// Clock: where the worker parts get their time from, so that a test can own it.
//
// Guarantees: now() never goes back. Refuses nothing. This is the one file of harness/ that reads a
// clock; everyone else takes a `const Clock&`.
// Use:  SteadyClock clock;  WorkerPool pool(options, clock);
#pragma once

#include <chrono>

namespace shardfuzz {

using Duration = std::chrono::nanoseconds;

class Clock {
 public:
  virtual ~Clock() = default;
  // Time since a fixed moment of the clock's own choice.
  [[nodiscard]] virtual Duration now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  [[nodiscard]] Duration now() const override {
    return std::chrono::duration_cast<Duration>(
        std::chrono::steady_clock::now().time_since_epoch());
  }
};

inline double to_seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace shardfuzz
