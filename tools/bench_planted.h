// tools/bench --planted: how soon fuzzing finds bugs that were planted in the native target.
#pragma once

#include <cstdint>

#include "fuzz/runner.h"

namespace shardfuzz {

struct PlantedOptions {
  RunnerOptions native;  // target kNative; `planted` is set for each bug
  int seeds = 10;
  std::int64_t cases_max = 200'000;  // for one bug and seed
  bool json = false;
};

// For each bug of harness/native/planted.h and each seed: controls are generated and run on the
// target with that bug until one fails, which is then minimized. Prints a line a bug: in how many
// seeds it was found, cases and seconds to find it (median), evaluations and size after shrinking
// (median), and the number of different minimized forms. Returns an exit code: kDiffers where a bug
// was not found by every seed.
int bench_planted(const PlantedOptions& options);

}  // namespace shardfuzz
