// The documented refusals of the code under test: a raise that is an answer, not a failure.
//
// A run is `refused` where every rank raises the same type, the table has it, and nothing had
// diverged before. The same raise on some ranks only is P3. Each row names its source and has a
// test (refused_table_test.cc on the text; harness/real/refusals_test.py on the real code).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/trace/event.h"

namespace shardfuzz {

struct Refusal {
  std::string_view id;       // used in signatures: "int-reshard-extension"
  std::string_view type;     // exception type
  std::string_view message;  // must be contained in the message; "" where the message is empty
  std::string_view where;    // "file.py:function"; "" where any will do
  std::string_view source;   // where PyTorch or torchao says no
};

const std::vector<Refusal>& refused_table();
// nullptr where it is not a documented refusal.
const Refusal* find_refusal(const Raised& raised);

}  // namespace shardfuzz
