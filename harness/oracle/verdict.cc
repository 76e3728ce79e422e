#include "harness/oracle/verdict.h"

#include "harness/base/check.h"

namespace shardfuzz {

std::string_view name_of(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kPass: return "pass";
    case VerdictKind::kFail: return "fail";
    case VerdictKind::kRefused: return "refused";
    case VerdictKind::kInvalid: return "invalid";
    case VerdictKind::kError: return "error";
  }
  SHARDFUZZ_CHECK(false, "unknown verdict kind");
}

bool parse_verdict_kind(std::string_view name, VerdictKind* kind) {
  for (const VerdictKind candidate : {VerdictKind::kPass, VerdictKind::kFail, VerdictKind::kRefused,
                                      VerdictKind::kInvalid, VerdictKind::kError}) {
    if (name_of(candidate) == name) {
      *kind = candidate;
      return true;
    }
  }
  return false;
}

}  // namespace shardfuzz
