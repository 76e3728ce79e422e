// CoverageReasons: why lines are never reached, as a person who read the code has written down.
//
// A file of JSON: {"schema": "shardfuzz.coverage_reasons/1", "torch": ..., "torchao": ...,
// "reasons": [{"file": ..., "function": ..., "at": ..., "reason": ...}]}. "file", "function" and
// "at" are patterns in which * stands for any text; "at" (default *) must match the source of the
// first line that is not reached, or the line that leads into its block ("if x:", "else of if x:").
// The first that matches counts. `torch` and `torchao` say for which versions they were read.
// Refuses, as an Error: another schema, an unknown or missing field.
// Use:  auto reasons = load_coverage_reasons(path);  reasons->find(file, function, text, guard);
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/base/result.h"

namespace shardfuzz {

struct CoverageReason {
  std::string file, function, at = "*", reason;
  int uses = 0;
};

struct CoverageReasons {
  std::string torch, torchao;
  std::vector<CoverageReason> reasons;

  // The reason, counted as used; empty: none is known.
  std::string find(std::string_view file, std::string_view function, std::string_view text,
                   std::string_view guard);
};

Result<CoverageReasons> load_coverage_reasons(const std::string& path);
Result<CoverageReasons> parse_coverage_reasons(const std::string& text, const std::string& where);

// `*` stands for any text, everything else for itself.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view text);

}  // namespace shardfuzz
