#include "tools/make_explorer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "fuzz/native_packs.h"
#include "fuzz/writable.h"

namespace shardfuzz {
namespace {

constexpr std::int64_t kExploredPerRange = 512;
constexpr std::uint64_t kExplorerSalt = 0x6578706c6f7265;  // its cases are not the real target's
constexpr int kExplorerSteeredOneIn = 8;

CaseSeries series_of(const EngineOptions& engine, std::vector<std::string> packs) {
  return {.seed = engine.seed ^ kExplorerSalt,
          .packs = std::move(packs),
          .world_max = engine.world_max,
          .documented_use_only = engine.documented_use_only,
          .steered_one_in = kExplorerSteeredOneIn,
          .command = engine.command};
}

// libFuzzer's seed is a number of 32 bits, of which 0 means the clock.
std::uint64_t libfuzzer_seed(std::uint64_t seed) { return seed % 0xFFFFFFFEU + 1; }

// Arguments of native_case: what tools/libfuzzer gives it, and the bounds that the worker pool
// keeps itself.
Result<std::vector<std::string>> native_case_arguments(const FuzzOptions& options) {
  if (Status made = make_writable_folder(options.corpus); !made) return made.error();
  if (Status made = make_writable_folder(options.output); !made) return made.error();
  return std::vector<std::string>{"--worker",
                                  fmt::format("-seed={}", libfuzzer_seed(options.seed)),
                                  "-use_counters=0",
                                  "-rss_limit_mb=0",
                                  "-timeout=0",
                                  "-print_funcs=0",
                                  "-artifact_prefix=" + options.output + "/",
                                  options.corpus};
}

// The twin cannot be had: told, and gone without (null), or an Error where it was asked for.
Result<std::unique_ptr<Explorer>> without_twin(const FuzzOptions& options, const std::string& why) {
  if (options.engine == "coverage") {
    return Error{.what = why,
                 .where = "--engine coverage",
                 .what_to_do = "tools/fuzz builds all that is needed; or use --engine mixed"};
  }
  std::fprintf(stderr, "%s: only the real target is used\n", why.c_str());
  return std::unique_ptr<Explorer>();
}

}  // namespace

Result<std::unique_ptr<Explorer>> make_explorer(const FuzzOptions& options,
                                                const EngineOptions& engine) {
  if (options.engine == "property") return std::unique_ptr<Explorer>();
  const bool is_coverage = options.engine == "coverage";
  RunnerOptions native = options.runner;
  native.worker = is_coverage ? options.native_case : options.native_worker;
  native.pack_files.clear();
  if (native.worker.empty() || !std::filesystem::exists(native.worker)) {
    return without_twin(options, is_coverage ? "the libFuzzer target native_case is not built"
                                             : fmt::format("no {}", native.worker));
  }
  auto packs = native_packs(engine.packs);
  if (!packs) return packs.error();
  if (packs->empty()) return without_twin(options, "the twin has none of these packs");
  if (is_coverage) {
    auto arguments = native_case_arguments(options);
    if (!arguments) return arguments.error();
    native.worker_arguments = std::move(arguments).value();
  }
  return std::make_unique<Explorer>(native, series_of(engine, std::move(packs).value()),
                                    kExploredPerRange, engine.start.next_range);
}

}  // namespace shardfuzz
