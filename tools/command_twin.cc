// shardfuzz twin: the same cases on real FSDP2 and on its C++ twin, compared event by event.
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "fuzz/pack_hooks.h"
#include "fuzz/shrink.h"
#include "fuzz/twin.h"
#include "harness/native/supported.h"
#include "reports/json_lines.h"
#include "reports/terminal.h"
#include "tools/case_files.h"
#include "tools/interrupt.h"
#include "tools/options.h"

namespace shardfuzz {
namespace {

struct Options : CommonOptions {
  std::vector<std::string> paths, packs;
  double seconds = 0;
  std::int64_t cases = 0;
  std::uint64_t seed = 1;
  std::string output = "findings", native_worker, planted;
  int world_max = 8;
  double minimize_seconds = 60;
};

constexpr double kProgressSeconds = 10;

RunnerOptions native_options(const Options& options) {
  RunnerOptions native = options.runner;
  native.target = Target::kNative;
  native.worker = options.native_worker;
  native.planted = options.planted;
  native.worker_count = 1;
  return native;
}

void print_skipped(const TwinStats& stats) {
  std::int64_t total = 0;
  for (const auto& [reason, count] : stats.skipped) total += count;
  if (total == 0) return;
  std::fprintf(stderr, "%lld generated cases that the twin cannot run:\n",
               static_cast<long long>(total));
  for (const auto& [reason, count] : stats.skipped) {
    std::fprintf(stderr, "  %8lld  %s\n", static_cast<long long>(count), reason.c_str());
  }
}

void print_stats(const TwinResult& result, const Options& options) {
  const TwinStats& stats = result.stats;
  if (options.json) {
    std::printf(
        "{\"cases\":%lld,\"events\":%lld,\"fields\":%lld,\"failed\":%lld,\"refused\":%lld,"
        "\"lost\":%lld,\"disagreements\":%zu,\"seconds\":%.1f}\n",
        static_cast<long long>(stats.compared), static_cast<long long>(stats.events),
        static_cast<long long>(stats.fields), static_cast<long long>(stats.failed),
        static_cast<long long>(stats.refused), static_cast<long long>(stats.lost),
        result.disagreements.size(), stats.seconds);
    return;
  }
  std::printf(
      "%lld cases on both targets in %.1f s: %lld events and %lld fields compared; both fail on "
      "%lld and refuse %lld\n%zu disagreement%s\n",
      static_cast<long long>(stats.compared), stats.seconds, static_cast<long long>(stats.events),
      static_cast<long long>(stats.fields), static_cast<long long>(stats.failed),
      static_cast<long long>(stats.refused), result.disagreements.size(),
      result.disagreements.size() == 1 ? "" : "s");
  for (const auto& [name, count] : stats.exceptions_used) {
    std::printf("exception %s used %lld times\n", name.c_str(), static_cast<long long>(count));
  }
}

void print_found(const Disagreement& found, const Options& options) {
  if (options.json) {
    std::printf("{\"name\":%s,\"sentence\":%s,\"file\":%s,\"evaluations\":%d}\n",
                json_string(found.name).c_str(), json_string(found.sentence).c_str(),
                json_string(found.file).c_str(), found.evaluations);
    return;
  }
  std::printf("DIFFER %s  (case %lld, %d evaluations)\n  %s\n  %s\n  again: shardfuzz twin %s\n",
              found.name.c_str(), static_cast<long long>(found.found_at_case), found.evaluations,
              found.sentence.c_str(), case_line(found.smallest).c_str(), found.file.c_str());
  std::fflush(stdout);
}

int run_files(Runner& real, Runner& native, const Options& options) {
  const auto files = load_case_files(options.paths);
  if (!files) return fail(files.error());
  std::size_t differing = 0, compared_count = 0;
  for (const CaseFile& file : *files) {
    if (is_interrupted()) break;
    if (const auto reason = native::unsupported(file.the_case)) {
      std::printf("skip   %s  (the twin has no %s)\n", file.path.c_str(), reason->c_str());
      continue;
    }
    const auto compared = compare_case(real, native, file.the_case);
    if (!compared) return fail(compared.error());
    ++compared_count;
    if (compared->name.empty()) {
      std::printf("same   %s  (%lld events)\n", file.path.c_str(),
                  static_cast<long long>(compared->comparison.events_compared));
      continue;
    }
    ++differing;
    std::printf("DIFFER %s\n  %s\n", file.path.c_str(), compared->sentence.c_str());
  }
  std::printf("%zu of %zu cases are the same on both targets\n", compared_count - differing,
              compared_count);
  return to_int(differing > 0 ? ExitCode::kDiffers : ExitCode::kDone);
}

int run(Options& options) {
  if (const auto chosen = parse_pack_hooks(options.packs); !chosen) return fail(chosen.error());
  Runner real(options.runner);
  Runner native(native_options(options));
  if (!options.paths.empty()) return run_files(real, native, options);
  const bool terminal = isatty(STDERR_FILENO) != 0;
  double last = 0;
  const TwinEvents events{
      .progress =
          [&](const TwinStats& stats, std::size_t disagreements) {
            if (options.json || stats.seconds - last < (terminal ? 0.2 : kProgressSeconds)) return;
            last = stats.seconds;
            std::fprintf(
                stderr, terminal ? "\r\033[K%s" : "%s\n",
                fmt::format("{} cases  {:.1f}/s  {} events compared  {} disagreement{}",
                            stats.compared, static_cast<double>(stats.compared) / stats.seconds,
                            stats.events, disagreements, disagreements == 1 ? "" : "s")
                    .c_str());
          },
      .found = [&](const Disagreement& found) { print_found(found, options); }};
  const auto result = compare_targets(
      real, native,
      {.seed = options.seed,
       .case_limit = options.cases,
       .is_out_of_time = Deadline(options.seconds > 0 ? options.seconds : 1e9, is_interrupted),
       .is_interrupted = is_interrupted,
       .output_folder = options.output,
       .packs = options.packs,
       .world_max = options.world_max,
       .minimize_seconds = options.minimize_seconds,
       .command = fmt::format("shardfuzz twin --seed {}", options.seed)},
      events);
  if (terminal) std::fprintf(stderr, "\r\033[K");
  if (!result) return fail(result.error());
  print_skipped(result->stats);
  print_stats(*result, options);
  return to_int(result->disagreements.empty() ? ExitCode::kDone : ExitCode::kDiffers);
}

}  // namespace

void add_twin_command(CLI::App* app, int* exit_code) {
  auto options = std::make_shared<Options>();
  options->native_worker = SHARDFUZZ_BUILD_DIR "/fuzz/shardfuzz_native_worker";
  CLI::App* command = app->add_subcommand(
      "twin", "run cases on real FSDP2 and on its C++ twin and compare them event by event");
  command->add_option("files", options->paths, "case files or folders (default: generated cases)");
  command->add_option("--cases", options->cases, "stop after this many cases (0: no bound)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  command->add_option("--seconds", options->seconds, "stop after this time (0: no bound)")
      ->check(plain_number() & CLI::Range(0.0, 1e8));
  command->add_option("--seed", options->seed, "fixes the cases")
      ->check(plain_number())
      ->capture_default_str();
  command->add_option("-o,--output", options->output, "folder for cases on which they differ")
      ->capture_default_str();
  command->add_option("--only", options->packs, "generate only these packs (pack or pack:hook)");
  command->add_option("--world-max", options->world_max, "most ranks of a case")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  command
      ->add_option("--minimize-seconds", options->minimize_seconds,
                   "time for shrinking one disagreement")
      ->check(plain_number() & CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--planted", options->planted, "switch a bug of the twin on")
      ->group("Advanced");
  command->add_option("--native-worker", options->native_worker, "the twin's program")
      ->group("Advanced");
  add_common_options(command, options.get());
  command->callback([options, exit_code] { *exit_code = run(*options); });
}

}  // namespace shardfuzz
