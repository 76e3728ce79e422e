// shardfuzz run FILE: runs one case as it is and shows verdict and, if asked, the trace.
#include <cstdio>
#include <memory>

#include "harness/case/case_json.h"
#include "harness/trace/trace.h"
#include "reports/json_lines.h"
#include "reports/terminal.h"
#include "tools/case_files.h"
#include "tools/options.h"

namespace shardfuzz {
namespace {

struct Options : CommonOptions {
  std::vector<std::string> paths;
  bool trace = false, record = false;
};

// Writes what was seen into the file as what it expects from now on.
Status record(const CaseFile& file, const Evaluated& evaluated) {
  Case c = file.the_case;
  const Verdict& verdict = evaluated.verdict;
  c.expect = {.verdict = std::string(name_of(verdict.kind)), .signature = verdict.signature};
  if (verdict.kind != VerdictKind::kPass) c.expect.sentence = verdict.sentence;
  if (evaluated.trace) {
    c.environment.torch = evaluated.trace->torch_version;
    c.environment.torchao = evaluated.trace->torchao_version;
  }
  return save_case(c, file.path);
}

int run(Options& options) {
  Runner runner(options.runner);
  if (Status learned = learn_named_packs(runner, options); !learned) return fail(learned.error());
  const auto files = load_case_files(options.paths);
  if (!files) return fail(files.error());
  for (const CaseFile& file : *files) {
    const Result<Evaluated> evaluated = runner.evaluate(file.the_case);
    if (!evaluated) return fail(evaluated.error());
    if (options.record && evaluated->verdict.kind != VerdictKind::kError) {
      if (Status saved = record(file, *evaluated); !saved) return fail(saved.error());
    }
    if (options.trace && evaluated->trace) {
      for (const Event& event : evaluated->trace->events)
        std::printf("%s\n", event_text(event).c_str());
    }
    if (options.json) {
      std::printf("%s\n", verdict_json(evaluated->verdict).c_str());
      continue;
    }
    std::printf(
        "%s: %s\n%s", file.path.c_str(), case_line(file.the_case).c_str(),
        verdict_text(evaluated->verdict, wants_colour() ? Style::kColour : Style::kPlain).c_str());
    if (!evaluated->output_tail.empty()) {
      std::printf("  output of the lost process:\n%s\n", evaluated->output_tail.c_str());
    }
  }
  return to_int(ExitCode::kDone);
}

}  // namespace

void add_run_command(CLI::App* app, int* exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app->add_subcommand("run", "run case files and show what happens");
  command->add_option("files", options->paths, "case files or folders")->required();
  command->add_flag("--trace", options->trace,
                    "print every event of the trace, one JSON object a line");
  command->add_flag("--record", options->record,
                    "write the verdict into each file as the one it expects");
  add_common_options(command, options.get());
  command->callback([options, exit_code] { *exit_code = run(*options); });
}

}  // namespace shardfuzz
