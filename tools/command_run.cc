// shardfuzz run FILE: runs one case as it is and shows verdict and, if asked, the trace.
#include <cstdio>
#include <memory>

#include "harness/trace/trace.h"
#include "reports/json_lines.h"
#include "reports/terminal.h"
#include "tools/case_files.h"
#include "tools/options.h"

namespace shardfuzz {
namespace {

struct Options : CommonOptions {
  std::vector<std::string> paths;
  bool trace = false;
};

int run(Options& options) {
  Runner runner(options.runner);
  if (!options.runner.pack_files.empty()) {
    if (Status learned = runner.learn_packs(); !learned) return fail(learned.error());
  }
  const auto files = load_case_files(options.paths);
  if (!files) return fail(files.error());
  for (const CaseFile& file : *files) {
    const Result<Evaluated> evaluated = runner.evaluate(file.the_case);
    if (!evaluated) return fail(evaluated.error());
    if (options.trace && evaluated->trace) {
      for (const Event& event : evaluated->trace->events) std::printf("%s\n", event_text(event).c_str());
    }
    if (options.json) {
      std::printf("%s\n", verdict_json(evaluated->verdict).c_str());
      continue;
    }
    std::printf("%s: %s\n%s", file.path.c_str(), case_line(file.the_case).c_str(),
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
  command->add_flag("--trace", options->trace, "print every event of the trace, one JSON object a line");
  add_common_options(command, options.get());
  command->callback([options, exit_code] { *exit_code = run(*options); });
}

}  // namespace shardfuzz
