// Prints "total ranks padded  offset:count ..." for every split up to 64 rows and 16 ranks.
#include <cstdio>

#include "harness/layout/chunk.h"

int main() {
  using namespace shardfuzz::layout;
  for (int total = 0; total <= 64; ++total) {
    for (int ranks = 1; ranks <= 16; ++ranks) {
      const Split split{.total = total, .ranks = ranks};
      std::printf("%d %d %lld", total, ranks, static_cast<long long>(padded_rows(split)));
      for (int rank = 0; rank < ranks; ++rank) {
        const Rows rows = chunk_of(split, rank);
        std::printf(" %lld:%lld", static_cast<long long>(rows.offset),
                    static_cast<long long>(rows.count));
      }
      std::printf("\n");
    }
  }
}
