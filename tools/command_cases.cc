// shardfuzz cases list|check|format: case files without running them.
#include <cstdio>
#include <memory>

#include "harness/base/hash.h"
#include "harness/case/case_json.h"
#include "reports/terminal.h"
#include "tools/case_files.h"
#include "tools/options.h"

namespace shardfuzz {
namespace {

using Paths = std::shared_ptr<std::vector<std::string>>;

int list(const std::vector<std::string>& paths) {
  const auto files = load_case_files(paths);
  if (!files) return fail(files.error());
  for (const CaseFile& file : *files) {
    const Expectation& expect = file.the_case.expect;
    std::printf("%s  %s\n  %s\n  %s %s\n", hex64(case_hash(file.the_case)).c_str(),
                file.path.c_str(), case_line(file.the_case).c_str(),
                expect.verdict.empty() ? "no verdict recorded" : expect.verdict.c_str(),
                expect.signature.c_str());
    if (!file.the_case.predicate.empty()) std::printf("  %s\n", file.the_case.predicate.c_str());
  }
  return to_int(ExitCode::kDone);
}

// Tells of every broken file, not of the first alone.
int check(const std::vector<std::string>& paths) {
  const auto files = find_case_files(paths);
  if (!files) return fail(files.error());
  std::size_t broken = 0;
  for (const std::string& file : *files) {
    if (const auto loaded = load_case_files({file}); !loaded) {
      fail(loaded.error());
      ++broken;
    }
  }
  if (broken > 0) {
    std::printf("%zu of %zu case files broken\n", broken, files->size());
    return to_int(ExitCode::kBadInput);
  }
  std::printf("%zu case file%s, all valid\n", files->size(), files->size() == 1 ? "" : "s");
  return to_int(ExitCode::kDone);
}

int format(const std::vector<std::string>& paths) {
  const auto files = load_case_files(paths);
  if (!files) return fail(files.error());
  for (const CaseFile& file : *files) {
    if (Status saved = save_case(file.the_case, file.path); !saved) return fail(saved.error());
  }
  std::printf("%zu case file%s in canonical form\n", files->size(), files->size() == 1 ? "" : "s");
  return to_int(ExitCode::kDone);
}

void add(CLI::App* parent, const char* name, const char* about,
         int (*run)(const std::vector<std::string>&), int* exit_code) {
  auto paths = std::make_shared<std::vector<std::string>>();
  CLI::App* command = parent->add_subcommand(name, about);
  command->add_option("files", *paths, "case files or folders")->required();
  command->callback([paths, run, exit_code] { *exit_code = run(*paths); });
}

}  // namespace

void add_cases_command(CLI::App* app, int* exit_code) {
  CLI::App* command = app->add_subcommand("cases", "look at case files without running them");
  command->require_subcommand(1);
  add(command, "list", "hash, shape, expected verdict and predicate of each", list, exit_code);
  add(command, "check", "read and validate", check, exit_code);
  add(command, "format", "rewrite in canonical form", format, exit_code);
}

}  // namespace shardfuzz
