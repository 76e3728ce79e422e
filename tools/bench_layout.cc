#include "tools/bench_layout.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "harness/base/exit_code.h"
#include "harness/base/random.h"
#include "harness/layout/chunk.h"
#include "harness/layout/life.h"
#include "tools/interrupt.h"

namespace shardfuzz {
namespace {

using Time = std::chrono::steady_clock;

constexpr int kSplits = 4096, kRowsMax = 64, kRanksMax = 8;
constexpr std::int64_t kRowBytes = 1024;

std::vector<layout::Split> random_splits() {
  Random random(1);
  std::vector<layout::Split> splits(kSplits);
  for (layout::Split& split : splits) {
    split = {.total = random.between(0, kRowsMax),
             .ranks = static_cast<int>(random.between(1, kRanksMax))};
  }
  return splits;
}

// What layout says of one case, added up so that no part of it can be left out.
struct Sums {
  std::int64_t rows = 0, offsets = 0, short_ranks = 0, sent_bytes = 0;
};

void look_at(const layout::Split& split, Sums* sums) {
  sums->sent_bytes += layout::padded_rows(split) * split.ranks * kRowBytes;
  for (int rank = 0; rank < split.ranks; ++rank) {
    const layout::Rows rows = layout::chunk_of(split, rank);
    sums->rows += rows.count;
    sums->offsets += rows.offset;
    sums->short_ranks += layout::class_of(split, rank) == layout::ShardClass::kFull ? 0 : 1;
  }
}

// Calls `once` until the time is over; times a second.
template <typename Once>
double rate_of(double seconds, std::int64_t per_call, Once once) {
  std::int64_t done = 0;
  const auto start = Time::now();
  double elapsed = 0;
  while (elapsed < seconds && !is_interrupted()) {
    once();
    done += per_call;
    elapsed = std::chrono::duration<double>(Time::now() - start).count();
  }
  return elapsed > 0 ? static_cast<double>(done) / elapsed : 0;
}

layout::LifeModel small_model() {
  const layout::LifeParam param{.gather_bytes = 1024, .gather_numel = 512, .reduce_numel = 512};
  return {.shard_ranks = 4, .groups = {{.params = {param}}, {.params = {param, param}}}};
}

std::vector<layout::Operation> three_steps() {
  std::vector<layout::Operation> program;
  for (int step = 0; step < 3; ++step) {
    program.push_back({.step = layout::Step::kForward});
    program.push_back({.step = layout::Step::kBackward});
    program.push_back({.step = layout::Step::kOther});
  }
  return program;
}

}  // namespace

int bench_layout(const LayoutBenchOptions& options) {
  const std::vector<layout::Split> splits = random_splits();
  std::int64_t want = 0;
  for (const layout::Split& split : splits) want += split.total;
  bool is_right = true;
  Sums sums;
  const double cases = rate_of(options.seconds, kSplits, [&] {
    sums = {};
    for (const layout::Split& split : splits) look_at(split, &sums);
    is_right = is_right && sums.rows == want;
  });
  const layout::LifeModel model = small_model();
  const std::vector<layout::Operation> program = three_steps();
  std::size_t collectives = 0;
  const double lives = rate_of(options.seconds, 1, [&] {
    collectives = live(model, program).operations[1].collectives.size();
  });
  std::printf(
      options.json
          ? "{\"layout_cases_per_s\":%.0f,\"lives_per_s\":%.0f,\"right\":%s}\n"
          : "layout only: %.0f cases/s on one core (1 to 8 ranks), %.0f lives/s of 3 steps; "
            "all rows accounted for: %s\n",
      cases, lives, is_right && collectives > 0 ? "true" : "false");
  return to_int(is_right ? ExitCode::kDone : ExitCode::kDiffers);
}

}  // namespace shardfuzz
