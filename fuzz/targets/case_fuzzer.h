// What native_case and real_case share: an input is a case (fuzz/case_input.h), the subject runs
// it, the oracle's verdict and what was reached become libFuzzer's features, what fails is kept.
//
// An input is a CaseInput, so any bytes are a valid case; mutation and crossover know its parts,
// and one corpus serves both targets. Features beside code coverage: where the case lies in the
// domain, how it fails, and the counters that the subject brings (extra counters of libFuzzer).
// What fails is kept as a case file (findings.h) and fuzzing goes on. Only `error` and `invalid`,
// which are ours, abort. Environment (tools/libfuzzer --help tells of it):
//   SHARDFUZZ_PACKS          pack or pack:hook, by commas; default: all that the subject has. Where
//                            all are controls, cases keep to documented use
//   SHARDFUZZ_FINDINGS       folder for case files; default: findings
//   SHARDFUZZ_ABORT_ON_FAIL  1: abort at the first failure, so that libFuzzer keeps the input
//   SHARDFUZZ_PRINT_CASES    1: print each input's case as JSON
// With --worker, which libFuzzer passes over, it is the explorer of an engine (explore_worker.h)
// and the engine says what is generated.
//
// Use: a target defines make_subject() and links case_fuzzer.cc, which has libFuzzer's functions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "fuzz/pack_hooks.h"
#include "fuzz/targets/findings.h"
#include "harness/case/case.h"
#include "harness/oracle/verdict.h"

namespace shardfuzz {

class CaseSubject {
 public:
  virtual ~CaseSubject() = default;

  [[nodiscard]] virtual FindingsOrigin origin() const = 0;
  [[nodiscard]] virtual bool has_pack(const PackHook& hook) const = 0;
  // nullopt: it cannot run this case, and libFuzzer shall not keep it.
  virtual std::optional<Verdict> run(const Case& c) = 0;
  // A byte each, not 0 where the last case reached what it stands for; at most kSharedBytes.
  [[nodiscard]] virtual std::span<const std::uint8_t> counters() const { return {}; }
};

// The target's own; ends the process, with a message, where it cannot be made.
std::unique_ptr<CaseSubject> make_subject();

// An environment variable; `otherwise` where it is not set or empty.
std::string setting(const char* name, const char* otherwise);

}  // namespace shardfuzz
