// JSON for machines: one object a line, fields fixed by name.
#pragma once

#include <string>

#include "harness/oracle/verdict.h"

namespace shardfuzz {

// {"verdict":...,"signature":...,"sentence":...,"trace_digest":...,"findings":[...]}
std::string verdict_json(const Verdict& verdict);

// A JSON string literal, with quotes.
std::string json_string(const std::string& text);

}  // namespace shardfuzz
