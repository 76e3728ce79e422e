#include "tools/options.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tools/interrupt.h"

namespace shardfuzz {
namespace {

std::string from_environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

}  // namespace

CLI::Validator plain_number() {
  const auto check = [](std::string& text) {
    const bool plain = text.find_first_not_of("0123456789.") == std::string::npos;
    return plain ? std::string() : "'" + text + "' is not written with digits alone";
  };
  return {check, "", "plain number"};
}

void add_common_options(CLI::App* command, CommonOptions* options) {
  RunnerOptions& runner = options->runner;
  runner.worker =
      from_environment("SHARDFUZZ_WORKER", SHARDFUZZ_BUILD_DIR "/harness/real/shardfuzz_worker");
  runner.python = from_environment("SHARDFUZZ_PYTHON", SHARDFUZZ_PYTHON);
  runner.home = from_environment("SHARDFUZZ_HOME", SHARDFUZZ_SOURCE_DIR);
  runner.is_interrupted = is_interrupted;
  command->add_option("--workers", runner.worker_count, "worker processes")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--timeout", runner.timeout_s, "seconds after which a case counts as a hang")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command->add_option("--memory", runner.memory_mib_max, "MiB that a worker may hold")
      ->check(CLI::Range(512, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--device", runner.device,
                   "cpu, or cuda: all ranks share one GPU (default: as the case says; cpu for new "
                   "ones)")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command
      ->add_option("--pack", runner.pack_files,
                   "a Python file that defines a pack of your own (README.md); cases can only name "
                   "packs, never load them")
      ->check(CLI::ExistingFile);
  command->add_option("--worker", runner.worker, "the worker program")->group("Advanced");
  command
      ->add_option("--python", runner.python,
                   "the interpreter whose torch the worker was built for (tools/* build it)")
      ->group("Advanced");
  command->add_flag("--json", options->json, "one JSON object a line on stdout");
}

Status learn_named_packs(Runner& runner, const CommonOptions& options) {
  if (options.runner.pack_files.empty()) return Done{};
  return runner.learn_packs();
}

int fail(const Error& error) {
  std::fprintf(stderr, "shardfuzz: %s\n", error.text().c_str());
  return to_int(ExitCode::kBadInput);
}

bool wants_colour() { return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr; }

}  // namespace shardfuzz
