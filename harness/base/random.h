// Random: the only source of random numbers in the project; seeded, portable, copyable.
//
// Guarantees: the same seed gives the same numbers on every machine and standard library (so
// std::uniform_int_distribution, whose results differ between libraries, is not used).
#pragma once

#include <cstdint>

#include "harness/base/check.h"
#include "harness/base/hash.h"

namespace shardfuzz {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(mix64(seed)) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    return mix64(state_);
  }

  // A number in [0, bound). bound > 0. The modulo bias is below 2^-40 for bounds below 2^24.
  std::uint64_t below(std::uint64_t bound) {
    SHARDFUZZ_CHECK(bound > 0, "below(0) has no result");
    return next() % bound;
  }

  // A number in [first, last], both included.
  std::int64_t between(std::int64_t first, std::int64_t last) {
    SHARDFUZZ_CHECK(first <= last, "empty range [{}, {}]", first, last);
    return first + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(last - first) + 1));
  }

  // True in `percent` of 100 draws.
  bool chance(int percent) { return static_cast<int>(below(100)) < percent; }

 private:
  std::uint64_t state_;
};

}  // namespace shardfuzz
