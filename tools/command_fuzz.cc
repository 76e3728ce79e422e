// shardfuzz fuzz: generate, run, judge, shrink; one file for each signature.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "fuzz/engine.h"
#include "fuzz/pack_hooks.h"
#include "fuzz/shrink.h"
#include "harness/case/pack_info.h"
#include "reports/json_lines.h"
#include "reports/terminal.h"
#include "tools/case_files.h"
#include "tools/domain_file.h"
#include "tools/interrupt.h"
#include "tools/options.h"

namespace shardfuzz {
namespace {

struct Options : CommonOptions {
  double seconds = 0;
  std::int64_t cases = 0;
  std::uint64_t seed = 1;
  std::string output = "findings";
  std::vector<std::string> packs, known;
  int world_max = 8;
  double minimize_seconds = 60;
  bool fail_on_new = false, documented_use = false;
  std::string engine = "mixed", native_worker, domain;
};

constexpr std::int64_t kExploredPerRange = 512;
constexpr std::uint64_t kExplorerSalt = 0x6578706c6f7265;  // its cases are not the real target's

constexpr double kProgressSeconds = 10;  // between progress lines where stderr is no terminal

// What a later command needs, too.
std::string pack_arguments(const Options& options) {
  std::string text;
  for (const std::string& file : options.runner.pack_files) text += " --pack " + file;
  return text;
}

class Display {
 public:
  Display(const Options& options) : options_(options), terminal_(isatty(STDERR_FILENO) != 0) {}

  void progress(const EngineStats& stats, std::size_t failures, std::size_t known) {
    const double every = terminal_ ? 0.2 : kProgressSeconds;
    if (options_.json || stats.seconds - last_ < every) return;
    last_ = stats.seconds;
    const double rate = stats.seconds > 0 ? static_cast<double>(stats.cases) / stats.seconds : 0;
    const double ranks =
        stats.cases > 0 ? static_cast<double>(stats.ranks) / static_cast<double>(stats.cases) : 0;
    std::string left;
    if (options_.seconds > 0) {
      left = fmt::format("  {:.0f} s left", std::max(0.0, options_.seconds - stats.seconds));
    }
    const std::string line =
        fmt::format("{} cases  {:.1f}/s  {:.1f} ranks a case  {} distinct failure{} ({} known){}",
                    stats.cases, rate, ranks, failures, failures == 1 ? "" : "s", known, left);
    std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
    std::fflush(stderr);
  }

  void found(const Failure& failure) {
    clear_line();
    if (options_.json) return;
    std::printf("FOUND  %s%s  (case %lld, after %.1f s; minimizing)\n", failure.signature.c_str(),
                failure.is_known ? "  [known]" : "", static_cast<long long>(failure.found_at_case),
                failure.found_after_s);
    std::fflush(stdout);
  }

  void done(const Failure& failure) {
    clear_line();
    if (options_.json) {
      std::printf(
          "{\"signature\":%s,\"sentence\":%s,\"predicate\":%s,\"file\":%s,\"known\":%s,"
          "\"found_after_s\":%.2f,\"found_at_case\":%lld,\"evaluations\":%d,\"minimized\":%s}\n",
          json_string(failure.signature).c_str(), json_string(failure.sentence).c_str(),
          json_string(failure.predicate).c_str(), json_string(failure.file).c_str(),
          failure.is_known ? "true" : "false", failure.found_after_s,
          static_cast<long long>(failure.found_at_case), failure.evaluations,
          failure.is_minimized ? "true" : "false");
    } else {
      std::printf("  %s\n", failure.sentence.c_str());
      if (!failure.predicate.empty()) std::printf("  %s\n", failure.predicate.c_str());
      std::printf("  %s  (%s)\n  replay: tools/replay %s%s\n", case_line(failure.smallest).c_str(),
                  failure.evaluations == 0
                      ? "not minimized"
                      : fmt::format("{} evaluations", failure.evaluations).c_str(),
                  failure.file.c_str(), pack_arguments(options_).c_str());
    }
    std::fflush(stdout);
  }

  void clear_line() const {
    if (terminal_ && !options_.json) std::fprintf(stderr, "\r\033[K");
  }

 private:
  const Options& options_;
  const bool terminal_;
  double last_ = 0;
};

Result<std::set<std::string>> known_signatures(const Options& options) {
  std::set<std::string> known;
  for (const std::string& folder : options.known) {
    const auto files = load_case_files_if_any({folder});
    if (!files) return files.error();
    for (const CaseFile& file : *files) known.insert(file.the_case.expect.signature);
  }
  return known;
}

bool names_only_controls(const std::vector<std::string>& packs) {
  const auto chosen = parse_pack_hooks(packs);
  return !packs.empty() && chosen.ok() && only_controls(*chosen);
}

void print_summary(const EngineResult& result, const Options& options) {
  const EngineStats& stats = result.stats;
  std::fprintf(
      stderr,
      "%lld cases in %.1f s (%.1f/s): %lld passed, %lld failed, %lld refused, %lld errors; "
      "%lld run twice, %lld compared over meshes, %lld workers lost\n",
      static_cast<long long>(stats.cases), stats.seconds,
      stats.seconds > 0 ? static_cast<double>(stats.cases) / stats.seconds : 0,
      static_cast<long long>(stats.passed), static_cast<long long>(stats.failed),
      static_cast<long long>(stats.refused), static_cast<long long>(stats.errors),
      static_cast<long long>(stats.repeated), static_cast<long long>(stats.mesh_relations),
      static_cast<long long>(stats.lost_workers));
  std::fprintf(stderr, "%zu distinct failure%s in %s\n", result.failures.size(),
               result.failures.size() == 1 ? "" : "s", options.output.c_str());
  if (stats.explored > 0) {
    std::fprintf(stderr,
                 "%lld cases explored on the twin; of the signatures that were new there %lld "
                 "confirmed on the real target, %lld not\n",
                 static_cast<long long>(stats.explored), static_cast<long long>(stats.confirmed),
                 static_cast<long long>(stats.not_confirmed));
  }
  if (!stats.first_error.empty()) {
    std::fprintf(stderr, "first error of our own: %s\n", stats.first_error.c_str());
  }
  if (result.too_many_signatures) {
    std::fprintf(stderr, "stopped: more than %zu signatures\n", kMaxSignatures);
  }
}

std::string command_text(const Options& options) {
  std::string text = fmt::format("shardfuzz fuzz --seed {}", options.seed);
  for (const std::string& pack : options.packs) text += " --only " + pack;
  if (options.world_max != 8) text += fmt::format(" --world-max {}", options.world_max);
  if (options.documented_use) text += " --documented-use";
  return text + pack_arguments(options);
}

// Null where the engine is to use the real target alone, or the twin was not built.
std::unique_ptr<Explorer> make_explorer(const Options& options, const EngineOptions& engine) {
  if (options.engine == "property") return nullptr;
  if (!std::filesystem::exists(options.native_worker)) {
    std::fprintf(stderr, "no %s: only the real target is used\n", options.native_worker.c_str());
    return nullptr;
  }
  RunnerOptions native = options.runner;
  native.worker = options.native_worker;
  native.pack_files.clear();
  return std::make_unique<Explorer>(native,
                                    CaseSeries{.seed = engine.seed ^ kExplorerSalt,
                                               .packs = engine.packs,
                                               .world_max = engine.world_max,
                                               .documented_use_only = engine.documented_use_only,
                                               .command = engine.command},
                                    kExploredPerRange);
}

int run(Options& options) {
  Runner runner(options.runner);
  if (Status learned = learn_named_packs(runner, options); !learned) return fail(learned.error());
  if (const auto chosen = parse_pack_hooks(options.packs); !chosen) return fail(chosen.error());
  const auto known = known_signatures(options);
  if (!known) return fail(known.error());
  if (Status learned = runner.learn_packs(); !learned) return fail(learned.error());
  Display display(options);
  const Deadline deadline(options.seconds > 0 ? options.seconds : 1e9, is_interrupted);
  EngineOptions engine{
      .seed = options.seed,
      .case_limit = options.cases,
      .is_out_of_time = deadline,
      .is_interrupted = is_interrupted,
      .output_folder = options.output,
      .known_signatures = *known,
      .packs = options.packs,
      .world_max = options.world_max,
      .documented_use_only = options.documented_use || names_only_controls(options.packs),
      .minimize_seconds = options.minimize_seconds,
      .command = command_text(options)};
  const auto explorer = make_explorer(options, engine);
  engine.explorer = explorer.get();
  std::optional<DomainFile> domain;
  if (!options.domain.empty()) {
    auto opened = DomainFile::open(options.domain, options.packs, options.world_max);
    if (!opened) return fail(opened.error());
    domain = std::move(opened).value();
  }
  EngineEvents events{.progress = [&](const EngineStats& s, std::size_t f,
                                      std::size_t k) { display.progress(s, f, k); },
                      .found = [&](const Failure& failure) { display.found(failure); },
                      .done = [&](const Failure& failure) { display.done(failure); }};
  if (domain) events.ran = [&](const Case& c) { domain->visit(c); };
  const auto result = fuzz(runner, engine, events);
  display.clear_line();
  if (!result) return fail(result.error());
  print_summary(*result, options);
  runner.shutdown();
  if (explorer) explorer->shutdown();
  if (domain) {
    std::fprintf(stderr, "%s", domain->report().c_str());
    if (Status saved = domain->save(); !saved) return fail(saved.error());
  }
  bool found_new = false;
  for (const Failure& failure : result->failures) found_new |= !failure.is_known;
  return to_int(options.fail_on_new && found_new ? ExitCode::kDiffers : ExitCode::kDone);
}

}  // namespace

void add_fuzz_command(CLI::App* app, int* exit_code) {
  auto options = std::make_shared<Options>();
  options->native_worker = SHARDFUZZ_BUILD_DIR "/fuzz/shardfuzz_native_worker";
  CLI::App* command = app->add_subcommand("fuzz", "generate cases, run them, shrink what fails");
  command->add_option("--seconds", options->seconds, "stop after this time (0: no bound)")
      ->check(plain_number() & CLI::Range(0.0, 1e8));
  command->add_option("--cases", options->cases, "stop after this many cases (0: no bound)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  command->add_option("--seed", options->seed, "fixes everything for a given number of cases")
      ->check(plain_number())
      ->capture_default_str();
  command
      ->add_option(
          "--engine", options->engine,
          "mixed: the C++ twin explores and the real target confirms, besides cases of its "
          "own; property: the real target alone")
      ->check(CLI::IsMember({"mixed", "property"}))
      ->capture_default_str();
  command->add_option("--domain", options->domain,
                      "keep in this file which corners of the case space the real target has seen, "
                      "and tell at the end which never");
  command->add_option("--native-worker", options->native_worker, "the twin's program")
      ->group("Advanced");
  command->add_option("-o,--output", options->output, "folder for the found cases")
      ->capture_default_str();
  command->add_option("--only", options->packs, "generate only these packs (pack or pack:hook)");
  command->add_option(
      "--known", options->known,
      "folders of cases whose failures are known (default: repro_cases of the project)");
  command->add_option("--world-max", options->world_max, "most ranks of a case")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  command
      ->add_option("--minimize-seconds", options->minimize_seconds,
                   "time for shrinking one failure; its condition gets as much again (0: neither)")
      ->check(plain_number() & CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_flag("--documented-use", options->documented_use,
                    "only cases that PyTorch and torchao promise to handle (always so where only "
                    "controls are chosen)");
  command->add_flag("--fail-on-new", options->fail_on_new, "exit 1 where something new was found");
  add_common_options(command, options.get());
  options->known = {options->runner.home + "/repro_cases"};
  command->callback([options, exit_code] { *exit_code = run(*options); });
}

}  // namespace shardfuzz
