// shardfuzz: the command line program.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "tools/interrupt.h"
#include "tools/options.h"

int main(int argc, char** argv) {
  using namespace shardfuzz;
  CLI::App app{
      "shardfuzz: finds, shrinks and replays FSDP sharding bugs on simulated ranks.\n"
      "Exit codes: 0 done as asked; 1 a replay differs from its file, or fuzz --fail-on-new found\n"
      "something new; 2 bad input or environment."};
  app.require_subcommand(1);
  app.set_version_flag("--version", "shardfuzz 0.1");
  app.get_formatter()->column_width(28);
  int exit_code = to_int(ExitCode::kDone);
  catch_interrupts();
  add_fuzz_command(&app, &exit_code);
  add_run_command(&app, &exit_code);
  add_replay_command(&app, &exit_code);
  add_minimize_command(&app, &exit_code);
  add_predicate_command(&app, &exit_code);
  add_bench_command(&app, &exit_code);
  add_twin_command(&app, &exit_code);
  add_coverage_command(&app, &exit_code);
  add_doctor_command(&app, &exit_code);
  add_cases_command(&app, &exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error, std::cout, std::cerr);
    return code == 0 ? to_int(ExitCode::kDone) : to_int(ExitCode::kBadInput);
  } catch (const std::exception& problem) {  // of a library: no memory, a file system that fails
    return fail({.what = problem.what()});
  }
  return exit_code;
}
