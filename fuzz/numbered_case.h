// numbered_case: the cases of a run, by number, so that any number of workers runs the same ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/case/case.h"

namespace shardfuzz {

inline constexpr int kCasesPerSwarm = 32;  // cases generated with one set of features (swarm.h)

struct CaseSeries {
  std::uint64_t seed = 1;
  std::vector<std::string> packs;  // pack or pack:hook; empty: all
  int world_max = 8;
  bool documented_use_only = false;  // documented_use.h
  std::string command;               // kept as the origin of each case
};

// A function of the series and the number alone.
Case numbered_case(const CaseSeries& series, std::int64_t number);

}  // namespace shardfuzz
