// shardfuzz minimize FILE, shardfuzz predicate FILE: the smallest case, and the condition.
#include <chrono>
#include <cstdio>
#include <memory>

#include "fuzz/shrink.h"
#include "fuzz/writable.h"
#include "harness/case/case_json.h"
#include "reports/terminal.h"
#include "tools/case_files.h"
#include "tools/interrupt.h"
#include "tools/options.h"

namespace shardfuzz {
namespace {

struct Options : CommonOptions {
  std::string path, output;
  int seconds = 60, evaluations = 400;
};

struct Loaded {
  Case the_case;
  Verdict verdict;
};

// Reads the file and runs it once: only what fails can be shrunk.
Result<Loaded> load_failing(Runner& runner, const Options& options) {
  const std::string& path = options.path;
  if (!options.output.empty()) {
    if (Status writable = check_writable_file(options.output); !writable) return writable.error();
  }
  if (Status learned = learn_named_packs(runner, options); !learned) return learned.error();
  const auto files = load_case_files({path});
  if (!files) return files.error();
  if (files->size() > 1) {
    return Error{.what = fmt::format("a folder with {} cases", files->size()),
                 .where = path,
                 .what_to_do = "name one case file"};
  }
  const Case& c = files->front().the_case;
  const Result<Evaluated> evaluated = runner.evaluate(c);
  if (!evaluated) return evaluated.error();
  const VerdictKind kind = evaluated->verdict.kind;
  if (kind != VerdictKind::kFail && kind != VerdictKind::kRefused) {
    return Error{.what = fmt::format("the case does not fail: {}", evaluated->verdict.sentence),
                 .where = path,
                 .what_to_do = "name a case whose verdict is fail or refused"};
  }
  return Loaded{.the_case = c, .verdict = evaluated->verdict};
}

int write_result(const Case& c, const std::string& output) {
  if (output.empty()) {
    std::printf("%s", canonical_text(c).c_str());
    return to_int(ExitCode::kDone);
  }
  if (Status saved = save_case(c, output); !saved) return fail(saved.error());
  std::fprintf(stderr, "written: %s\n", output.c_str());
  return to_int(ExitCode::kDone);
}

int run_minimize(Options& options) {
  Runner runner(options.runner);
  const auto loaded = load_failing(runner, options);
  if (!loaded) return fail(loaded.error());
  const Deadline deadline(options.seconds, is_interrupted);
  const auto shrunk = shrink(
      runner, loaded->the_case, loaded->verdict,
      {.max_evaluations = options.evaluations, .out_of_time = deadline, .find_predicate = false});
  if (!shrunk) return fail(shrunk.error());
  std::fprintf(stderr, "%s\n%d evaluations\n%s", case_line(shrunk->smallest).c_str(),
               shrunk->evaluations, verdict_text(shrunk->verdict, Style::kPlain).c_str());
  return write_result(shrunk->smallest, options.output);
}

int run_predicate(Options& options) {
  Runner runner(options.runner);
  const auto loaded = load_failing(runner, options);
  if (!loaded) return fail(loaded.error());
  const Deadline deadline(options.seconds, is_interrupted);
  const auto found = probe(runner, loaded->the_case, loaded->verdict.signature, deadline);
  if (!found) return fail(found.error());
  std::printf("%s\n", found->sentence.c_str());
  std::fprintf(stderr, "rows by ranks (F fails, . passes, ? otherwise):\n%s",
               grid_text(*found).c_str());
  if (options.output.empty()) return to_int(ExitCode::kDone);
  Case c = loaded->the_case;
  c.predicate = found->sentence;
  return write_result(c, options.output);
}

void add(CLI::App* app, const char* name, const char* about, int (*run)(Options&), int* exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app->add_subcommand(name, about);
  command->add_option("file", options->path, "a case that fails")->required();
  command->add_option("-o,--output", options->output, "file to write (otherwise: to stdout)");
  command->add_option("--seconds", options->seconds, "time bound")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  command->add_option("--evaluations", options->evaluations, "bound on runs of cases")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  add_common_options(command, options.get());
  command->callback([options, run, exit_code] { *exit_code = run(*options); });
}

}  // namespace

void add_minimize_command(CLI::App* app, int* exit_code) {
  add(app, "minimize", "shrink a failing case, keeping its signature", run_minimize, exit_code);
}

void add_predicate_command(CLI::App* app, int* exit_code) {
  add(app, "predicate", "find the condition under which a minimized case fails", run_predicate,
      exit_code);
}

}  // namespace shardfuzz
