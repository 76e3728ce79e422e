// Runner: case -> verdict, through worker processes and the oracle.
//
// Guarantees: every case gets a verdict; a worker that crashes, hangs or eats memory is one
// (judge_lost) and is replaced; one that was killed from outside, twice for the same case, is
// `error`. An Error means that no worker can be used at all (no Python, no torch, a broken pack):
// what, where and what to do. Once is_interrupted says so, evaluate() gives `error` at once. Thread
// rule: one thread, which outlives the runner. Use:  Runner runner(options);  auto verdict =
// runner.evaluate(c);  if (!verdict) return verdict.error();
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/result.h"
#include "harness/case/case.h"
#include "harness/oracle/verdict.h"
#include "harness/trace/trace.h"
#include "harness/worker/worker_pool.h"

namespace shardfuzz {

// Most runs leave out what costs time in PyTorch and decides nothing (shardfuzz_real/shortcuts.py);
// a share, chosen by the case, does not, nor does what must confirm another run.
enum class Shortcuts { kInMostRuns, kNever };

enum class Target { kReal, kNative };

struct RunnerOptions {
  Target target = Target::kReal;
  std::string worker;  // path of shardfuzz_worker or shardfuzz_native_worker
  std::string python;  // interpreter with torch and torchao
  std::string home;    // folder that holds harness/real
  // Where cases run, whatever they say: "cpu" or "cuda". Empty: on the CPU, and a case that says
  // otherwise is an Error.
  std::string device;
  std::vector<std::string> worker_arguments;  // after those that follow from the rest
  std::vector<std::string> pack_files;        // packs outside the project
  std::string planted;                        // of the native target (harness/native/planted.h)
  // Of the real target: where workers mark the lines and branches that they reach (a SharedBytes);
  // modules to cover besides those that shardfuzz_real/coverage.py names. Empty: nothing is marked.
  std::string coverage_file;
  std::vector<std::string> covered_modules;
  int worker_count = 2;
  int timeout_s = 60;                  // bound on one case
  std::int64_t memory_mib_max = 6144;  // resident memory of a worker
  Shortcuts shortcuts = Shortcuts::kInMostRuns;
  std::function<bool()> is_interrupted;  // stays true once it is
};

struct Evaluated {
  Verdict verdict;
  std::optional<Trace> trace;  // none where the process was lost
  std::string output_tail;     // of a lost process
};

class Runner {
 public:
  explicit Runner(RunnerOptions options);
  ~Runner();

  // Starts a worker and learns the packs that `pack_files` define (pack_info.h); an Error where one
  // says of itself what cannot be. Needed before
  // cases that name such packs are validated; otherwise workers start with the first case.
  Status learn_packs();
  // What a worker says of itself: JSON with versions and packs.
  Result<std::string> hello() { return pool_->wait_hello(); }

  // One case, waited for; P12 where it lists compare_meshes. Nothing else may be pending.
  Result<Evaluated> evaluate(const Case& c);

  // Several at a time, in completion order.
  Status submit(std::uint64_t id, const Case& c, Shortcuts shortcuts = Shortcuts::kInMostRuns);
  struct Finished {
    std::uint64_t id = 0;
    Case the_case;
    Evaluated evaluated;
  };
  Result<std::vector<Finished>> poll(std::chrono::milliseconds timeout);
  [[nodiscard]] std::size_t pending_count() const;
  void shutdown();

 private:
  [[nodiscard]] Result<Case> placed(const Case& c) const;
  Result<Evaluated> run_once(const Case& c);
  [[nodiscard]] std::string request_of(const Case& c, Shortcuts shortcuts) const;
  [[nodiscard]] bool is_interrupted() const;
  Result<Evaluated> evaluated_of(const Case& c, const Outcome& outcome) const;

  RunnerOptions options_;
  std::unique_ptr<Clock> clock_;
  std::unique_ptr<WorkerPool> pool_;
  std::map<std::uint64_t, Case> pending_;
};

// How the workers of a target are started and held.
PoolOptions pool_options(const RunnerOptions& options);

// The case on another mesh: what is listed by rank is dropped.
Case on_mesh(Case c, const std::vector<int>& shape);

}  // namespace shardfuzz
