// shardfuzz doctor: what is there, what is missing and how to get it.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/case/pack_info.h"
#include "tools/options.h"

namespace shardfuzz {
namespace {

int run(CommonOptions& options) {
  const auto line = [](const char* what, const std::string& value) {
    std::printf("%-10s %s\n", what, value.c_str());
  };
  line("home", options.runner.home);
  line("python", options.runner.python.empty() ? "none: run tools/setup" : options.runner.python);
  line("worker", options.runner.worker);
  if (access(options.runner.worker.c_str(), X_OK) != 0) {
    return fail({.what = "the worker program is not there",
                 .where = options.runner.worker,
                 .what_to_do = "run tools/setup, which builds it"});
  }
  options.runner.worker_count = 1;
  Runner runner(options.runner);
  if (Status learned = runner.learn_packs(); !learned) return fail(learned.error());
  const auto hello = runner.hello();
  if (!hello) return fail(hello.error());
  const auto facts = nlohmann::json::parse(*hello);
  line("torch", facts.at("torch").get<std::string>());
  line("torchao", facts.at("torchao").get<std::string>());
  line("comm", "sim (simulated ranks)");
  const auto gpu = facts.value("gpu", std::string());
  line("device", gpu.empty() ? "cpu (torch sees no GPU: --device cuda is not possible here)"
                             : "cpu, cuda (" + gpu + ")");
  for (const PackInfo& pack : all_packs()) {
    std::string hooks;
    for (const HookInfo& hook : pack.hooks) hooks += " " + hook.name + (hook.is_control ? "*" : "");
    line("pack", pack.name + ":" + hooks + "  " + pack.about);
  }
  std::printf("(* a control: it must pass)\n");
  return to_int(ExitCode::kDone);
}

}  // namespace

void add_doctor_command(CLI::App* app, int* exit_code) {
  auto options = std::make_shared<CommonOptions>();
  CLI::App* command =
      app->add_subcommand("doctor", "show what is there, what is missing and how to get it");
  add_common_options(command, options.get());
  command->callback([options, exit_code] { *exit_code = run(*options); });
}

}  // namespace shardfuzz
