// native_packs: which of the chosen packs the native target has.
//
// Guarantees: "pack:hook" names in the order of parse_pack_hooks; empty where it has none of them.
// Refuses names that parse_pack_hooks refuses, with its Error.
#pragma once

#include <string>
#include <vector>

#include "harness/base/result.h"

namespace shardfuzz {

Result<std::vector<std::string>> native_packs(const std::vector<std::string>& packs);

}  // namespace shardfuzz
