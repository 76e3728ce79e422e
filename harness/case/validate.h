// validate: the rules that a readable case must obey before any target may run it.
//
// Guarantees: an accepted case has consistent numbers (every index within its range, every name
// found, every size small enough for one machine), so the code behind it need not check again.
// Refuses with the first broken rule in the order of the file: the JSON pointer as `where`, the
// numbers as `what`, a way out as `what_to_do`. Verdict `invalid` is made of exactly these errors.
// What FSDP2 or a pack itself refuses is not checked here: that is what runs are for (`refused`).
// Use:  if (const Status fine = validate(c); !fine) return fine.error();
#pragma once

#include <cstdint>

#include "harness/base/result.h"
#include "harness/case/case.h"

namespace shardfuzz {

inline constexpr int kMaxMeshSize = 64;   // ranks in a case file
inline constexpr int kMaxWorldSize = 16;  // ranks that comm "sim" runs: one thread each
inline constexpr int kMaxGroups = 8;
inline constexpr int kMaxParams = 16;  // in one group
inline constexpr int kMaxDims = 4;
inline constexpr std::int64_t kMaxDimSize = 65536;
inline constexpr std::int64_t kMaxElements = std::int64_t{64} << 20;  // of one parameter
inline constexpr int kMaxTokensPerExpert = 4096;
inline constexpr int kMaxTopK = 64;
inline constexpr int kMaxTokenFactor = 64;  // entries of tokens_by_rank
inline constexpr int kMaxOperations = 64;
inline constexpr int kMaxSteps = 100;
inline constexpr int kMinLrLog2 = -30;
inline constexpr int kMaxLrLog2 = 10;
inline constexpr int kMaxDelay = 1000;
inline constexpr int kMaxChangePoints = 1000;
inline constexpr int kMaxCompareMeshes = 16;

Status validate(const Case& c);

}  // namespace shardfuzz
