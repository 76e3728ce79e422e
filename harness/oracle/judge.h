// judge: (case, trace) -> verdict. The whole oracle as one function.
//
// Guarantees: the findings of a fail are in causal order (step, operation, property, rank), so the
// first is the cause and does not depend on the schedule; the same trace gives the same verdict.
// Refused (verdict error): a trace of another world size, or with a rank that neither ends nor
// raises. Properties named in `switched_off` are not checked (for tests of the oracle itself).
#pragma once

#include <set>
#include <string>

#include "harness/case/case.h"
#include "harness/oracle/verdict.h"
#include "harness/trace/trace.h"

namespace shardfuzz {

struct JudgeOptions {
  std::set<std::string> switched_off;  // "P5", ..., "raise"
  bool with_digest = true;             // false: the verdict's trace_digest stays empty
};

Verdict judge(const Case& c, const Trace& trace, const JudgeOptions& options = {});

// The verdict of a case whose process was lost: `what` is "crash", "hang" or "memory".
struct LostProcess {
  std::string what;    // "crash", "hang", "memory"
  std::string reason;  // "SIGSEGV", "no answer within 60 s", ...
  std::string place;   // last operator or place known; may be empty
};
Verdict judge_lost(const Case& c, const LostProcess& lost);

// The verdict of several runs of one case that must agree (P11) or be related (P12).
Verdict judge_repeat(const Case& c, const Trace& first, const Trace& second);
Verdict judge_meshes(const Case& c, const std::vector<Trace>& traces);

}  // namespace shardfuzz
