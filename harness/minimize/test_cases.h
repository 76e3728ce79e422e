// Random valid cases and synthetic verdicts for the tests of this folder; the fuzzer's real
// generator is elsewhere. For tests only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "harness/base/random.h"
#include "harness/case/case.h"
#include "harness/minimize/edits.h"
#include "harness/minimize/minimize.h"

namespace shardfuzz::testing {

// A valid case of 1 to 4 groups with every field set to something in some cases; at least one
// parameter is of pack torchao_moe_fp8 with hook one_arg.
Case random_case(Random* random);

// A parameter of the code "under test" for which the bug shows; nullopt: it does not.
using Bug = std::function<std::optional<ParamRef>(const Case&)>;

inline constexpr char kSignature[] = "P1|shape contract|short";

// Fails with kSignature where the bug shows, naming the parameter; passes elsewhere.
Evaluate evaluate_with(Bug bug);

// The bug shows for one_arg parameters of which `shows(rows, ranks)` holds.
Bug bug_on_rows(std::function<bool(std::int64_t rows, std::int64_t ranks)> shows);

// steps >= 2 and an explicit reshard_after_forward=true of a nested group with a one_arg parameter.
std::optional<ParamRef> nested_reshard_bug(const Case& c);

// Draws cases until the bug shows.
Case failing_case(Random* random, const Bug& bug);

}  // namespace shardfuzz::testing
