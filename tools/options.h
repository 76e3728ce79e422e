// Options that several commands share, and how they become a Runner.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "fuzz/runner.h"
#include "harness/base/exit_code.h"

namespace shardfuzz {

struct CommonOptions {
  RunnerOptions runner;
  bool json = false;
};

// Adds --workers, --timeout, --memory, --device, --pack, --python, --worker, --json to a command.
void add_common_options(CLI::App* command, CommonOptions* options);

// Refuses signs, nan and inf: CLI11 takes -1 for an unsigned number, and nan for one in a range.
CLI::Validator plain_number();

// Where --pack named some: to be called before cases that name them are read.
Status learn_named_packs(Runner& runner, const CommonOptions& options);

// Prints "shardfuzz: <error>" to stderr and gives exit code 2.
int fail(const Error& error);

// True where stdout is a terminal and NO_COLOR is unset.
bool wants_colour();

// The commands: each adds itself to the program and sets *exit_code when it is the one that runs.
void add_fuzz_command(CLI::App* app, int* exit_code);
void add_replay_command(CLI::App* app, int* exit_code);
void add_run_command(CLI::App* app, int* exit_code);
void add_minimize_command(CLI::App* app, int* exit_code);
void add_predicate_command(CLI::App* app, int* exit_code);
void add_bench_command(CLI::App* app, int* exit_code);
void add_twin_command(CLI::App* app, int* exit_code);
void add_coverage_command(CLI::App* app, int* exit_code);
void add_doctor_command(CLI::App* app, int* exit_code);
void add_cases_command(CLI::App* app, int* exit_code);

}  // namespace shardfuzz
