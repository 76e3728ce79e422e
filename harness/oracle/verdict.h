// Verdict: what was learned from running one case.
//
// pass     every property held
// fail     at least one property is violated; findings are in causal order, the first is the cause
// and
//          the others are its consequences
// refused  the code under test says a documented no, the same on every rank (refused_table.h)
// invalid  the case cannot be run as written (an unknown pack, a shape the pack forbids, ...)
// error    ours or the environment's: nothing was learned about the code under test
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardfuzz {

enum class VerdictKind { kPass, kFail, kRefused, kInvalid, kError };

struct Finding {
  std::string property;      // "P1" ... "P12", or "crash", "hang", "memory" for a lost process
  int rank = -1;             // global rank; -1: no single rank
  std::string group, param;  // names in the case; empty where it concerns neither
  std::string phase;         // "init", "forward", "backward", "step", ...
  int step = -1;
  std::string sentence;     // what is wrong, with the numbers; one sentence without a full stop
  std::int64_t event = -1;  // index in the trace at which it shows
  bool operator==(const Finding&) const = default;
};

struct Verdict {
  VerdictKind kind = VerdictKind::kError;
  std::string signature;          // of a fail or refused: what makes two of them the same
  std::string sentence;           // one sentence for a person
  std::vector<Finding> findings;  // causal order
  std::string trace_digest;       // 16 hex digits; empty where there is no trace
  bool operator==(const Verdict&) const = default;
};

std::string_view name_of(VerdictKind kind);                         // "pass", "fail", ...
bool parse_verdict_kind(std::string_view name, VerdictKind* kind);  // false: not a name

}  // namespace shardfuzz
