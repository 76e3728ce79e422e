// numbered_case: the cases of a run, by number, so that any number of workers runs the same ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/domain.h"
#include "harness/case/case.h"

namespace shardfuzz {

inline constexpr int kCasesPerSwarm = 32;  // cases generated with one set of features (swarm.h)

struct CaseSeries {
  std::uint64_t seed = 1;
  std::vector<std::string> packs;  // pack or pack:hook; empty: all
  int world_max = 8;
  bool documented_use_only = false;  // documented_use.h
  int steered_one_in = 0;            // case_source.h; 0: none
  std::string command;               // kept as the origin of each case
  bool operator==(const CaseSeries&) const = default;
};

// A function of the series and the number alone.
Case numbered_case(const CaseSeries& series, std::int64_t number);
// The same, aimed at what `coverage` has not visited (steer.h).
Case numbered_case(const CaseSeries& series, std::int64_t number, const DomainCoverage& coverage);

}  // namespace shardfuzz
