// libFuzzer target real_case: generated cases on real FSDP2 and real subclasses (case_fuzzer.h).
//
// The real target runs in a worker process, as it does for the engine: a case that kills it, hangs
// it or eats its memory is a verdict, and the next worker goes on. The worker marks which lines and
// branches of the Python code it reaches in memory that it shares with this process
// (harness/worker/shared_bytes.h, shardfuzz_real/coverage.py); those bytes become features.
// Environment besides that of case_fuzzer.h:
//   SHARDFUZZ_WORKER                  the worker program (tools/libfuzzer builds and names it)
//   SHARDFUZZ_PYTHON, SHARDFUZZ_HOME  the Python it was built for, the project's folder; defaults:
//                                     those of this build
#include <cstdio>
#include <cstdlib>

#include "fuzz/runner.h"
#include "fuzz/targets/case_fuzzer.h"
#include "harness/base/exit_code.h"
#include "harness/worker/shared_bytes.h"

namespace shardfuzz {
namespace {

constexpr int kCaseSecondsMax = 30;  // below what tools/libfuzzer lets an input take

[[noreturn]] void give_up(const Error& error) {
  std::fprintf(stderr, "real_case: %s\n", error.text().c_str());
  std::_Exit(to_int(ExitCode::kBadInput));  // not exit(): that is a crash to libFuzzer
}

template <typename T>
T value_of(Result<T> result) {
  if (!result) give_up(result.error());
  return std::move(result).value();
}

RunnerOptions runner_options(const SharedBytes& shared) {
  return {.worker = setting("SHARDFUZZ_WORKER", ""),
          .python = setting("SHARDFUZZ_PYTHON", SHARDFUZZ_PYTHON),
          .home = setting("SHARDFUZZ_HOME", SHARDFUZZ_SOURCE_DIR),
          .coverage_file = shared.path(),
          .worker_count = 1,  // the bytes are those of one case
          .timeout_s = kCaseSecondsMax};
}

class RealSubject : public CaseSubject {
 public:
  RealSubject() : shared_(value_of(SharedBytes::anonymous())), runner_(runner_options(shared_)) {
    value_of(runner_.hello());  // a worker that cannot start is no finding
  }

  [[nodiscard]] FindingsOrigin origin() const override {
    return {.target = "real_case", .note = "", .skipped = "not run"};
  }
  [[nodiscard]] bool has_pack(const PackHook& /*hook*/) const override { return true; }

  std::optional<Verdict> run(const Case& c) override {
    shared_.clear();
    return value_of(runner_.evaluate(c)).verdict;
  }

  [[nodiscard]] std::span<const std::uint8_t> counters() const override { return shared_.bytes(); }

 private:
  SharedBytes shared_;
  Runner runner_;
};

}  // namespace

std::unique_ptr<CaseSubject> make_subject() { return std::make_unique<RealSubject>(); }

}  // namespace shardfuzz
