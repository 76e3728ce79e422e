// shardfuzz fuzz: generate, run, judge, shrink; one file for each signature.
#include <memory>
#include <optional>

#include "fuzz/pack_hooks.h"
#include "fuzz/shrink.h"
#include "fuzz/writable.h"
#include "tools/cache_folder.h"
#include "tools/case_files.h"
#include "tools/domain_file.h"
#include "tools/fuzz_display.h"
#include "tools/fuzz_options.h"
#include "tools/interrupt.h"
#include "tools/make_explorer.h"
#include "tools/run_state.h"

namespace shardfuzz {
namespace {

constexpr double kKeepStateSeconds = 2;  // between two times that the run's position is kept

Result<std::set<std::string>> known_signatures(const FuzzOptions& options) {
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

std::string command_text(const FuzzOptions& options) {
  std::string text = fmt::format("shardfuzz fuzz --seed {}", options.seed);
  for (const std::string& pack : options.packs) text += " --only " + pack;
  if (options.world_max != 8) text += fmt::format(" --world-max {}", options.world_max);
  if (options.engine != "mixed") text += " --engine " + options.engine;
  if (options.documented_use) text += " --documented-use";
  return text + pack_arguments(options);
}

EngineOptions engine_options(const FuzzOptions& options, std::set<std::string> known) {
  return {.seed = options.seed,
          .case_limit = options.cases,
          .own_cases = options.engine != "coverage",
          .is_out_of_time = Deadline(options.seconds > 0 ? options.seconds : 1e9, is_interrupted),
          .is_interrupted = is_interrupted,
          .output_folder = options.output,
          .known_signatures = std::move(known),
          .packs = options.packs,
          .world_max = options.world_max,
          .documented_use_only = options.documented_use || names_only_controls(options.packs),
          .minimize_seconds = options.minimize_seconds,
          .command = command_text(options)};
}

Status check_options(const FuzzOptions& options) {
  const auto chosen = parse_pack_hooks(options.packs);
  if (!chosen) return chosen.error();
  if (options.engine == "coverage" && options.resume) {
    return Error{.what = "the coverage engine goes on from its corpus by itself",
                 .where = "--resume",
                 .what_to_do = "leave it out; --corpus FOLDER names another corpus"};
  }
  return Done{};
}

// Writes the position now and then, and says so once where it cannot.
class Keeper {
 public:
  Keeper(const RunState& state) : state_(state) {}

  void came_to(const RunPosition& position) {
    if (!due_()) return;
    due_ = Deadline(kKeepStateSeconds, {});
    save(position);
  }
  void save(const RunPosition& position) {
    const Status saved = state_.save(position);
    if (!saved && !told_) std::fprintf(stderr, "%s\n", saved.error().text().c_str());
    told_ = told_ || !saved;
  }

 private:
  const RunState& state_;
  Deadline due_{kKeepStateSeconds, {}};
  bool told_ = false;
};

// What is told of the run besides its failures.
struct Told {
  FuzzDisplay display;
  Keeper keeper;
  std::optional<DomainFile> domain;
};

EngineEvents events_for(Told* told) {
  EngineEvents events{
      .progress = [told](const EngineStats& s, std::size_t f,
                         std::size_t k) { told->display.progress(s, f, k); },
      .came_to = [told](const RunPosition& position) { told->keeper.came_to(position); },
      .found = [told](const Failure& failure) { told->display.found(failure); },
      .done = [told](const Failure& failure) { told->display.done(failure); }};
  if (told->domain) events.ran = [told](const Case& c) { told->domain->visit(c); };
  return events;
}

int finish(const EngineResult& result, Told* told, const FuzzOptions& options) {
  told->keeper.save(result.position);
  told->display.summary(result);
  if (told->domain) {
    std::fprintf(stderr, "%s", told->domain->report().c_str());
    if (Status saved = told->domain->save(); !saved) return fail(saved.error());
  }
  bool found_new = false;
  for (const Failure& failure : result.failures) found_new |= !failure.is_known;
  return to_int(options.fail_on_new && found_new ? ExitCode::kDiffers : ExitCode::kDone);
}

int run(FuzzOptions& options) {
  Runner runner(options.runner);
  if (Status learned = learn_named_packs(runner, options); !learned) return fail(learned.error());
  if (Status good = check_options(options); !good) return fail(good.error());
  auto known = known_signatures(options);
  if (!known) return fail(known.error());
  EngineOptions engine = engine_options(options, std::move(known).value());
  const RunState state(engine, options.engine);
  if (options.resume) {
    const auto position = state.load();
    if (!position) return fail(position.error());
    engine.start = *position;
  }
  Told told{.display = FuzzDisplay(options), .keeper = Keeper(state)};
  if (!options.domain.empty()) {
    auto opened = DomainFile::open(options.domain, options.packs, options.world_max);
    if (!opened) return fail(opened.error());
    told.domain = std::move(opened).value();
  }
  const auto explorer = make_explorer(options, engine);
  if (!explorer) return fail(explorer.error());
  engine.explorer = explorer->get();
  if (Status learned = runner.learn_packs(); !learned) return fail(learned.error());
  const auto result = fuzz(runner, engine, events_for(&told));
  told.display.clear_line();
  if (!result) return fail(result.error());
  runner.shutdown();
  if (*explorer) (*explorer)->shutdown();
  return finish(*result, &told, options);
}

void add_engine_options(CLI::App* command, FuzzOptions* options) {
  options->native_worker = SHARDFUZZ_BUILD_DIR "/fuzz/shardfuzz_native_worker";
  options->corpus = cache_folder() + "/corpus/native_case";
  command
      ->add_option(
          "--engine", options->engine,
          "mixed: the C++ twin explores and the real target confirms, besides cases of its own; "
          "coverage: libFuzzer explores on the twin, the real target confirms; property: the real "
          "target alone")
      ->check(CLI::IsMember({"mixed", "coverage", "property"}))
      ->capture_default_str();
  command
      ->add_option("--corpus", options->corpus,
                   "of the coverage engine, which goes on from it and adds to it")
      ->capture_default_str();
  command->add_flag("--resume", options->resume,
                    "go on where the run in the output folder was ended or killed");
  command->add_option("--native-worker", options->native_worker, "the twin's program")
      ->group("Advanced");
  command
      ->add_option("--native-case", options->native_case,
                   "the libFuzzer target of the coverage engine (default: SHARDFUZZ_NATIVE_CASE, "
                   "which tools/fuzz sets)")
      ->envname("SHARDFUZZ_NATIVE_CASE")
      ->group("Advanced");
}

}  // namespace

void add_fuzz_command(CLI::App* app, int* exit_code) {
  auto options = std::make_shared<FuzzOptions>();
  CLI::App* command = app->add_subcommand("fuzz", "generate cases, run them, shrink what fails");
  command->add_option("--seconds", options->seconds, "stop after this time (0: no bound)")
      ->check(plain_number() & CLI::Range(0.0, 1e8));
  command
      ->add_option(
          "--cases", options->cases,
          "stop after this many cases, counted from the first run on where a run is resumed (0: no "
          "bound)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  command->add_option("--seed", options->seed, "fixes everything for a given number of cases")
      ->check(plain_number())
      ->capture_default_str();
  add_engine_options(command, options.get());
  command->add_option("--domain", options->domain,
                      "keep in this file which corners of the case space the real target has seen, "
                      "and tell at the end which never");
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
