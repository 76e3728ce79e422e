// shardfuzz bench: cases/s of the real target on one core, against the same case under torchrun.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/case/case_json.h"
#include "harness/worker/clock.h"
#include "reports/json_lines.h"
#include "tools/bench_explore.h"
#include "tools/bench_layout.h"
#include "tools/bench_planted.h"
#include "tools/case_files.h"
#include "tools/interrupt.h"
#include "tools/options.h"

namespace shardfuzz {
namespace {

using Time = std::chrono::steady_clock;

struct Options : CommonOptions {
  std::vector<std::string> paths;
  double seconds = 10;
  int warm_up = 20, torchrun_runs = 1;
  bool torchrun = true;
  bool planted = false, layout = false;
  std::int64_t explore = 0;
  int seeds = 10;
  std::string native_worker;
};

double seconds_since(Time::time_point start) {
  return std::chrono::duration<double>(Time::now() - start).count();
}

// Pins this process, and what it starts, to one core.
cpu_set_t pin_to_one_core() {
  cpu_set_t before;
  sched_getaffinity(0, sizeof before, &before);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &before)) {
      CPU_SET(core, &one);
      break;
    }
  }
  sched_setaffinity(0, sizeof one, &one);
  return before;
}

struct Measured {
  int runs = 0;
  double seconds = 0, slowest_ms = 0, median_ms = 0;
};

Result<Measured> measure(Runner& runner, const Case& c, const Options& options) {
  std::vector<double> times;
  Measured measured;
  for (int i = 0; i < options.warm_up; ++i) {
    const auto warm = runner.evaluate(c);
    if (!warm) return warm.error();
    if (warm->verdict.kind != VerdictKind::kPass) {
      return Error{.what = "the bench case does not pass: " + warm->verdict.sentence,
                   .where = c.name,
                   .what_to_do = "only passing cases are timed"};
    }
  }
  const auto start = Time::now();
  while (seconds_since(start) < options.seconds && !is_interrupted()) {
    const auto one = Time::now();
    const auto evaluated = runner.evaluate(c);
    if (!evaluated) return evaluated.error();
    times.push_back(seconds_since(one) * 1e3);
  }
  measured.seconds = seconds_since(start);
  measured.runs = static_cast<int>(times.size());
  if (times.empty()) return measured;
  std::sort(times.begin(), times.end());
  measured.median_ms = times[times.size() / 2];
  measured.slowest_ms = times.back();
  return measured;
}

// Seconds of one whole torchrun of the case (the mean of torchrun_runs), or an Error with the file
// that holds its output.
Result<double> time_torchrun(const Case& c, const Options& options) {
  const auto folder = std::filesystem::temp_directory_path();
  const std::string file = (folder / fmt::format("shardfuzz-bench-{}.json", getpid())).string();
  const std::string log = file + ".log";
  std::ofstream(file) << full_text(c);
  const std::filesystem::path library = std::filesystem::path(options.runner.worker).parent_path() /
                                        "fp8" / "libshardfuzz_fp8_shared.so";
  const std::string command = fmt::format(
      "OMP_NUM_THREADS=1 '{}' -m torch.distributed.run --standalone --nproc_per_node={} "
      "'{}/tools/torchrun_case.py' '{}' '{}' > '{}' 2>&1",
      options.runner.python, c.mesh.world_size(), options.runner.home, file, library.string(), log);
  const auto start = Time::now();
  int status = 0;
  for (int i = 0; i < options.torchrun_runs && status == 0; ++i) {
    status = std::system(command.c_str());  // NOLINT(cert-env33-c): a developer's benchmark
  }
  const double seconds = seconds_since(start) / options.torchrun_runs;
  std::filesystem::remove(file);
  if (status != 0) {
    return Error{.what = "torchrun failed",
                 .where = log,
                 .what_to_do = "read that file, or use --no-torchrun"};
  }
  std::filesystem::remove(log);
  return seconds;
}

// Ratios: runs of shardfuzz in the time of one run under torchrun. The first has both on one core.
void print(const Case& c, const Measured& measured, double one_core_s, double all_cores_s,
           const Options& options) {
  const double rate = measured.runs / std::max(1e-9, measured.seconds);
  const int ranks = c.mesh.world_size();
  if (options.json) {
    std::printf(
        "{\"case\":%s,\"ranks\":%d,\"cases_per_s\":%.2f,\"median_ms\":%.2f,\"runs\":%d,"
        "\"torchrun_one_core_s\":%.2f,\"torchrun_all_cores_s\":%.2f,\"ratio\":%.1f,"
        "\"ratio_all_cores\":%.1f}\n",
        json_string(c.name).c_str(), ranks, rate, measured.median_ms, measured.runs, one_core_s,
        all_cores_s, one_core_s * rate, all_cores_s * rate);
    return;
  }
  std::printf(
      "%-22s %d ranks  %6.1f cases/s on one core  (median %.1f ms, slowest %.1f ms, %d runs)\n",
      c.name.c_str(), ranks, rate, measured.median_ms, measured.slowest_ms, measured.runs);
  if (one_core_s <= 0) return;
  std::printf(
      "%-22s torchrun + gloo: %.1f s on the same core, ratio %.0f; %.1f s on all cores, ratio "
      "%.0f\n",
      "", one_core_s, one_core_s * rate, all_cores_s, all_cores_s * rate);
}

// The native target runs and judges the case again and again in its own process.
Result<Measured> measure_native(const Case& c, const Options& options) {
  constexpr int kRunsAtOnce = 500;
  RunnerOptions native = options.runner;
  native.target = Target::kNative;
  native.worker = options.native_worker;
  const SteadyClock clock;
  WorkerPool pool(pool_options(native), clock);
  const std::string request = fmt::format("repeat {}\n{}", kRunsAtOnce, compact_text(c));
  Measured measured;
  const auto start = Time::now();
  while (seconds_since(start) < options.seconds && !is_interrupted()) {
    const auto outcome = pool.run_one(request);
    if (!outcome) return outcome.error();
    const auto* answer = std::get_if<Answer>(&*outcome);
    const auto told = answer == nullptr ? nlohmann::json() : nlohmann::json::parse(answer->payload);
    if (told.value("verdict", "lost") != "pass") {
      return Error{.what = "the native target does not pass the case",
                   .where = c.name,
                   .what_to_do = "only passing cases are timed"};
    }
    const double seconds = told.at("seconds");
    measured.runs += kRunsAtOnce;
    measured.seconds += seconds;
    measured.slowest_ms = std::max(measured.slowest_ms, seconds * 1e3 / kRunsAtOnce);
  }
  if (measured.runs > 0) measured.median_ms = measured.seconds * 1e3 / measured.runs;
  pool.shutdown();
  return measured;
}

int run(Options& options) {
  options.runner.worker_count = 1;
  if (options.layout) {
    pin_to_one_core();
    return bench_layout({.seconds = options.seconds, .json = options.json});
  }
  RunnerOptions native = options.runner;
  native.target = Target::kNative;
  native.worker = options.native_worker;
  if (options.explore > 0) {
    return bench_explore({.native = native, .cases = options.explore, .json = options.json});
  }
  if (options.planted) {
    return bench_planted({.native = native, .seeds = options.seeds, .json = options.json});
  }
  if (options.paths.empty()) options.paths = {options.runner.home + "/tools/bench_cases"};
  const auto files = load_case_files(options.paths);
  if (!files) return fail(files.error());
  const cpu_set_t all_cores = pin_to_one_core();
  for (const CaseFile& file : *files) {
    const Case& c = file.the_case;
    if (c.environment.target == "native") {
      const auto measured = measure_native(c, options);
      if (!measured) return fail(measured.error());
      print(c, *measured, 0, 0, options);
      continue;
    }
    Runner runner(options.runner);  // pinned too: one core for the engine and its worker
    const auto measured = measure(runner, c, options);
    if (!measured) return fail(measured.error());
    runner.shutdown();
    double one_core_s = 0, all_cores_s = 0;
    if (options.torchrun && !is_interrupted()) {
      const auto one = time_torchrun(c, options);  // on the same core as the runs above
      if (!one) return fail(one.error());
      sched_setaffinity(0, sizeof all_cores, &all_cores);
      const auto all = time_torchrun(c, options);
      if (!all) return fail(all.error());
      pin_to_one_core();
      one_core_s = *one;
      all_cores_s = *all;
    }
    print(c, *measured, one_core_s, all_cores_s, options);
    std::fflush(stdout);
  }
  return to_int(ExitCode::kDone);
}

}  // namespace

void add_bench_command(CLI::App* app, int* exit_code) {
  auto options = std::make_shared<Options>();
  options->native_worker = SHARDFUZZ_BUILD_DIR "/fuzz/shardfuzz_native_worker";
  CLI::App* command =
      app->add_subcommand("bench", "measure cases/s, and the ratio to torchrun + gloo");
  command->add_option("files", options->paths, "cases (default: tools/bench_cases)");
  command->add_option("--seconds", options->seconds, "time for each case")
      ->check(plain_number() & CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--warm-up", options->warm_up, "runs that do not count")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
  command->add_option("--torchrun-runs", options->torchrun_runs, "runs under torchrun")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--planted", options->planted,
                    "how soon bugs planted in the C++ twin are found, and what they shrink to");
  command
      ->add_option("--explore", options->explore,
                   "so many generated cases on the C++ twin: cases/s, and memory over time")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command->add_flag("--layout", options->layout, "cases/s of the shard algebra alone");
  command->add_option("--seeds", options->seeds, "of --planted, for each bug")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--native-worker", options->native_worker, "the twin's program")
      ->group("Advanced");
  command->add_flag("!--no-torchrun", options->torchrun, "leave torchrun out");
  command->add_flag_callback(
      "--no-shortcuts", [options] { options->runner.shortcuts = Shortcuts::kNever; },
      "leave PyTorch's profiler ranges and pytree as they are");
  add_common_options(command, options.get());
  command->callback([options, exit_code] { *exit_code = run(*options); });
}

}  // namespace shardfuzz
