// `bench --layout`: how many cases the shard algebra alone can look at.
#pragma once

namespace shardfuzz {

struct LayoutBenchOptions {
  double seconds = 3;
  bool json = false;
};

// Prints, for one core: cases/s of which a case is one dimension of up to 64 rows over 1 to 8 ranks
// with every rank's rows, offset and class and the padded bytes; and lives/s, each of a root and a
// nested group through three steps of forward and backward with all collectives and bytes held.
// Every case's rows are summed and compared; a wrong sum is an exit code 1.
int bench_layout(const LayoutBenchOptions& options);

}  // namespace shardfuzz
