// What the user asked of `shardfuzz fuzz`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/options.h"

namespace shardfuzz {

struct FuzzOptions : CommonOptions {
  double seconds = 0;
  std::int64_t cases = 0;
  std::uint64_t seed = 1;
  std::string output = "findings";
  std::vector<std::string> packs, known;
  int world_max = 8;
  double minimize_seconds = 60;
  bool fail_on_new = false, documented_use = false, resume = false;
  std::string engine = "mixed", native_worker, native_case, corpus, domain;
};

// " --pack FILE" for each: what a later command needs, too.
std::string pack_arguments(const FuzzOptions& options);

}  // namespace shardfuzz
