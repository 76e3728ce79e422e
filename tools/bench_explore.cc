#include "tools/bench_explore.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "fuzz/explorer.h"
#include "fuzz/native_packs.h"
#include "tools/interrupt.h"
#include "tools/options.h"

namespace shardfuzz {
namespace {

using Time = std::chrono::steady_clock;

constexpr std::int64_t kCasesPerRange = 2000;
constexpr std::int64_t kMib = std::int64_t{1} << 20;
constexpr std::int64_t kPoints = 10;

void print(const ExploreBenchOptions& options, std::int64_t cases, double seconds,
           const std::vector<std::int64_t>& memory_mib) {
  const double rate = static_cast<double>(cases) / std::max(seconds, 1e-9);
  std::printf("%s\n", (options.json
                           ? fmt::format(R"({{"cases":{},"cases_per_s":{:.0f},"memory_mib":[{}]}})",
                                         cases, rate, fmt::join(memory_mib, ","))
                           : fmt::format("{} generated cases on the twin, {:.0f}/s; resident "
                                         "memory after each tenth: {} MiB",
                                         cases, rate, fmt::join(memory_mib, " ")))
                          .c_str());
}

}  // namespace

int bench_explore(const ExploreBenchOptions& options) {
  auto packs = native_packs({});
  if (!packs) return fail(packs.error());
  Explorer explorer(options.native, {.seed = options.seed, .packs = *packs}, kCasesPerRange);
  const auto start = Time::now();
  std::vector<std::int64_t> memory_mib;
  std::int64_t asked = 0, ran = 0;
  while (asked < options.cases && !is_interrupted()) {
    if (Status started = explorer.start(); !started) return fail(started.error());
    const auto answer = explorer.take();
    if (!answer) return fail(answer.error());
    asked += kCasesPerRange;
    ran += answer->cases;
    const auto points = static_cast<std::int64_t>(memory_mib.size());
    if (asked * kPoints >= options.cases * (points + 1)) {
      memory_mib.push_back(explorer.rss_bytes() / kMib);
      std::fprintf(stderr, "%lld cases, %lld MiB\n", static_cast<long long>(ran),
                   static_cast<long long>(memory_mib.back()));
    }
  }
  print(options, ran, std::chrono::duration<double>(Time::now() - start).count(), memory_mib);
  explorer.shutdown();
  const bool is_flat = !memory_mib.empty() && memory_mib.back() * 10 <= memory_mib.front() * 11;
  return to_int(is_flat && explorer.lost_ranges() == 0 ? ExitCode::kDone : ExitCode::kDiffers);
}

}  // namespace shardfuzz
