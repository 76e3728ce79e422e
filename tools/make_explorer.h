// The explorer of a fuzz run: who runs the many cases of which the real target confirms the
// failing.
#pragma once

#include <memory>

#include "fuzz/engine.h"
#include "tools/fuzz_options.h"

namespace shardfuzz {

// Null where the engine is to use the real target alone: --engine property, a twin that was not
// built or has none of the packs (both are told). Refused for --engine coverage: the same, and a
// native_case that is not there.
Result<std::unique_ptr<Explorer>> make_explorer(const FuzzOptions& options,
                                                const EngineOptions& engine);

}  // namespace shardfuzz
