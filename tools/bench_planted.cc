#include "tools/bench_planted.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "fuzz/explorer.h"
#include "fuzz/shrink.h"
#include "harness/base/exit_code.h"
#include "harness/case/form.h"
#include "harness/minimize/case_size.h"
#include "harness/native/planted.h"
#include "reports/terminal.h"
#include "tools/interrupt.h"
#include "tools/options.h"

namespace shardfuzz {
namespace {

using Time = std::chrono::steady_clock;

constexpr std::int64_t kCasesPerRange =
    64;  // small, so that the count to the first is exact enough
constexpr double kShrinkSeconds = 60;

struct Found {
  std::int64_t cases = 0;  // run until the first failure, in whole ranges
  double seconds = 0;
  int evaluations = 0;
  std::string form;  // of the minimized case, without what the seed alone decides
  std::string line;  // for people
};

template <typename Number>
Number median(std::vector<Number> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The first failing case of the bug, minimized; nothing found: `cases` is what was run.
Result<Found> find(const RunnerOptions& native, std::uint64_t seed, std::int64_t cases_max) {
  const CaseSeries series{.seed = seed,
                          .packs = {"plain", "torchao_moe_fp8:padded"},
                          .documented_use_only = true,
                          .command = "tools/bench --planted"};
  Explorer explorer(native, series, kCasesPerRange);
  Runner runner(native);
  Found found;
  const auto start = Time::now();
  std::optional<ExploreAnswer::Failure> failure;
  while (!failure && found.cases < cases_max && !is_interrupted()) {
    if (Status started = explorer.start(); !started) return started.error();
    const auto answer = explorer.take();
    if (!answer) return answer.error();
    if (explorer.lost_ranges() > 0) break;
    found.cases += answer->cases;
    if (!answer->failures.empty()) failure = answer->failures.front();
  }
  found.seconds = std::chrono::duration<double>(Time::now() - start).count();
  explorer.shutdown();
  if (!failure) return found;
  const Case& start_case = failure->the_case;
  const auto evaluated = runner.evaluate(start_case);
  if (!evaluated) return evaluated.error();
  const auto shrunk =
      shrink(runner, start_case, evaluated->verdict,
             {.out_of_time = Deadline(kShrinkSeconds, is_interrupted), .find_predicate = false});
  if (!shrunk) return shrunk.error();
  runner.shutdown();
  found.evaluations = shrunk->evaluations;
  found.form = form_text(shrunk->smallest);
  found.line = shrunk->smallest.expect.signature + "  " + case_line(shrunk->smallest);
  return found;
}

}  // namespace

int bench_planted(const PlantedOptions& options) {
  bool all_found = true;
  for (std::size_t bug = 1; bug < native::kBugNames.size() && !is_interrupted(); ++bug) {
    RunnerOptions native = options.native;
    native.planted = native::kBugNames[bug];
    std::vector<std::int64_t> cases;
    std::vector<double> seconds;
    std::vector<int> evaluations;
    std::set<std::string> forms;
    std::string line;
    for (int seed = 1; seed <= options.seeds && !is_interrupted(); ++seed) {
      const auto found = find(native, static_cast<std::uint64_t>(seed), options.cases_max);
      if (!found) return fail(found.error());
      if (found->form.empty()) continue;
      cases.push_back(found->cases);
      seconds.push_back(found->seconds);
      evaluations.push_back(found->evaluations);
      forms.insert(found->form);
      line = found->line;
    }
    all_found = all_found && static_cast<int>(cases.size()) == options.seeds;
    std::printf(
        options.json ? "{\"bug\":\"%s\",\"found\":%zu,\"seeds\":%d,\"cases\":%lld,\"seconds\":%.2f,"
                       "\"evaluations\":%d,\"forms\":%zu}\n"
                     : "%-22s found by %zu of %d seeds; median %lld cases, %.2f s; %d evaluations; "
                       "%zu forms\n",
        native.planted.c_str(), cases.size(), options.seeds, static_cast<long long>(median(cases)),
        median(seconds), median(evaluations), forms.size());
    if (!options.json && !line.empty()) std::printf("    %s\n", line.c_str());
    std::fflush(stdout);
  }
  return to_int(all_found ? ExitCode::kDone : ExitCode::kDiffers);
}

}  // namespace shardfuzz
