// `bench --explore N`: generated cases on the twin, with its memory over time.
#pragma once

#include <cstdint>

#include "fuzz/runner.h"

namespace shardfuzz {

struct ExploreBenchOptions {
  RunnerOptions native;
  std::int64_t cases = 0;
  std::uint64_t seed = 1;
  bool json = false;
};

// Runs and judges `cases` generated cases, all in one process, and prints cases/s and the resident
// memory at ten points of the run. Exit code 1 where the last point is more than a tenth above the
// first (the first tenth of the run is warm-up), or a process was lost.
int bench_explore(const ExploreBenchOptions& options);

}  // namespace shardfuzz
