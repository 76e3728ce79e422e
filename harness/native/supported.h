// Which cases the native target can run; known without torch.
#pragma once

#include <optional>
#include <string>

#include "harness/case/case.h"

namespace shardfuzz::native {

// Why the native target cannot run the case, in a few words without numbers; nothing where it can.
// The case must be valid.
std::optional<std::string> unsupported(const Case& c);

}  // namespace shardfuzz::native
