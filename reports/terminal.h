// What a person sees on the terminal: a verdict, its cause and consequences, a case's shape in a
// line.
//
// Guarantees: plain text, one idea a line, no colour unless asked (Style::kColour); nothing depends
// on the time or the machine.
#pragma once

#include <string>

#include "harness/case/case.h"
#include "harness/oracle/verdict.h"

namespace shardfuzz {

enum class Style { kPlain, kColour };

// "2 ranks, 1 group, 1 parameter [1, 16, 32] bf16 torchao_moe_fp8:shipped, 1 step".
std::string case_line(const Case& c);

// Several lines: verdict, signature, the sentence, then cause and consequences.
std::string verdict_text(const Verdict& verdict, Style style);

}  // namespace shardfuzz
