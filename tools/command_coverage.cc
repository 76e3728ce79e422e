// shardfuzz coverage: which lines and branches of FSDP2 and the subclasses a set of cases reaches.
#include <cstdio>
#include <deque>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "fuzz/numbered_case.h"
#include "fuzz/pack_hooks.h"
#include "harness/worker/shared_bytes.h"
#include "reports/coverage_report.h"
#include "tools/case_files.h"
#include "tools/interrupt.h"
#include "tools/options.h"

namespace shardfuzz {
namespace {

constexpr std::size_t kPendingCases = 8;

struct Options : CommonOptions {
  std::vector<std::string> paths, packs;
  std::string output, reasons;
  std::int64_t cases = 0;
  std::uint64_t seed = 1;
  int world_max = 8;
};

// Kept cases first, then generated ones; those of a P12 case on its other meshes, too.
class Queue {
 public:
  Queue(std::vector<CaseFile> files, const Options& options)
      : series_{.seed = options.seed, .packs = options.packs, .world_max = options.world_max},
        generated_(options.cases) {
    for (CaseFile& file : files) add(std::move(file.the_case));
  }

  std::optional<Case> take() {
    if (waiting_.empty() && next_ < generated_) add(numbered_case(series_, next_++));
    if (waiting_.empty()) return std::nullopt;
    Case c = std::move(waiting_.front());
    waiting_.pop_front();
    return c;
  }

 private:
  void add(Case c) {
    std::vector<Case> others;
    for (const std::vector<int>& shape : c.compare_meshes) others.push_back(on_mesh(c, shape));
    waiting_.push_back(std::move(c));
    for (Case& other : others) waiting_.push_back(std::move(other));
  }

  CaseSeries series_;
  std::int64_t generated_, next_ = 0;
  std::deque<Case> waiting_;
};

void count(const Evaluated& evaluated, CoverageRun* run) {
  ++run->cases;
  if (!evaluated.trace) {
    ++run->lost;
    return;
  }
  switch (evaluated.verdict.kind) {
    case VerdictKind::kPass: ++run->passed; break;
    case VerdictKind::kFail: ++run->failed; break;
    case VerdictKind::kRefused: ++run->refused; break;
    case VerdictKind::kInvalid:
    case VerdictKind::kError: ++run->other; break;
  }
}

Status run_all(Runner& runner, Queue& queue, CoverageRun* run) {
  std::uint64_t id = 0;
  bool is_empty = false;
  while ((!is_empty || runner.pending_count() > 0) && !is_interrupted()) {
    while (!is_empty && runner.pending_count() < kPendingCases) {
      const std::optional<Case> next = queue.take();
      is_empty = !next.has_value();
      if (is_empty) break;
      if (Status sent = runner.submit(id++, *next); !sent) return sent;
    }
    const auto finished = runner.poll(std::chrono::milliseconds(200));
    if (!finished) return finished.error();
    for (const Runner::Finished& item : *finished) count(item.evaluated, run);
  }
  if (is_interrupted()) return Error{.what = "interrupted"};
  return Done{};
}

bool is_json_name(const std::string& path) { return path.ends_with(".json"); }

Status write_report(const CoverageReport& report, const CoverageRun& run, const Options& options) {
  const bool json = options.output.empty() ? options.json : is_json_name(options.output);
  const std::string text = json ? coverage_json(report, run) : coverage_markdown(report, run);
  if (options.output.empty()) {
    std::fputs(text.c_str(), stdout);
    return Done{};
  }
  std::ofstream file(options.output);
  file << text;
  file.close();
  if (file) return Done{};
  return Error{
      .what = "cannot be written", .where = options.output, .what_to_do = "choose another"};
}

// A command that gives the same numbers.
std::string command_line(const Options& options) {
  std::string line = "tools/coverage";
  for (const std::string& path : options.paths) line += " " + path;
  line += fmt::format(" --cases {} --seed {}", options.cases, options.seed);
  for (const std::string& pack : options.packs) line += " --only " + pack;
  for (const std::string& name : options.runner.covered_modules) line += " --cover " + name;
  return line;
}

void warn(const CoverageReport& report) {
  if (report.reasons_are_of_other_versions) {
    std::fprintf(stderr, "shardfuzz: the reasons were written for another torch or torchao\n");
  }
  for (const CoverageReason& reason : report.unused) {
    std::fprintf(stderr, "shardfuzz: a reason that nothing needs: %s %s at '%s'\n",
                 reason.file.c_str(), reason.function.c_str(), reason.at.c_str());
  }
}

int run(Options& options) {
  if (const auto chosen = parse_pack_hooks(options.packs); !chosen) return fail(chosen.error());
  auto reasons = load_coverage_reasons(options.reasons);
  if (!reasons) return fail(reasons.error());
  const auto shared = SharedBytes::anonymous();
  if (!shared) return fail(shared.error());
  options.runner.coverage_file = shared->path();
  Runner runner(options.runner);
  if (Status learned = learn_named_packs(runner, options); !learned) return fail(learned.error());
  const auto hello = runner.hello();
  if (!hello) return fail(hello.error());
  const auto table = parse_coverage_table(*hello);
  if (!table) return fail(table.error());
  const std::vector<std::string> kept = {SHARDFUZZ_SOURCE_DIR "/repro_cases/regression"};
  auto files = load_case_files(options.paths.empty() ? kept : options.paths);
  if (!files) return fail(files.error());

  CoverageRun done{.command = command_line(options)};
  Queue queue(std::move(files).value(), options);
  if (Status ran = run_all(runner, queue, &done); !ran) return fail(ran.error());
  runner.shutdown();
  CoverageReasons known = std::move(reasons).value();
  const CoverageReport report = report_coverage(*table, shared->bytes(), &known);
  if (Status written = write_report(report, done, options); !written) return fail(written.error());
  warn(report);
  return to_int(ExitCode::kDone);
}

}  // namespace

void add_coverage_command(CLI::App* app, int* exit_code) {
  auto options = std::make_shared<Options>();
  options->reasons = SHARDFUZZ_SOURCE_DIR "/reports/coverage_reasons.json";
  CLI::App* command = app->add_subcommand(
      "coverage", "tell which lines and branches of FSDP2 and the subclasses cases reach");
  command->add_option("files", options->paths,
                      "case files or folders (default: repro_cases/regression)");
  command->add_option("--cases", options->cases, "generated cases besides")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "fixes the generated cases")
      ->check(plain_number())
      ->capture_default_str();
  command->add_option("--only", options->packs, "generate only these packs (pack or pack:hook)");
  command->add_option("-o,--output", options->output,
                      "file for the report: Markdown, or JSON where it ends in .json (default: "
                      "stdout)");
  command
      ->add_option("--reasons", options->reasons,
                   "why lines are never reached (reports/coverage_reasons.h)")
      ->check(CLI::ExistingFile);
  command->add_option("--cover", options->runner.covered_modules,
                      "cover this Python module, too; name.* with all below it");
  command->add_option("--world-max", options->world_max, "most ranks of a generated case")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  add_common_options(command, options.get());
  command->callback([options, exit_code] { *exit_code = run(*options); });
}

}  // namespace shardfuzz
