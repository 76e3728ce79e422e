// domain_report: what a coverage saw of the lattice, for a terminal of 100 columns.
//
// Guarantees: plain text; a function of the coverage alone. Tells impossible, visited and never
// visited cells apart; for each product "visited/possible"; of the cells that were never visited
// the first `never_max`, a line each, in the words of a person; and cells that were visited though
// held impossible, by name.
// Use:  puts(domain_report(coverage).c_str());
#pragma once

#include <string>

#include "fuzz/domain.h"

namespace shardfuzz {

inline constexpr int kUsualNeverMax = 20;

std::string domain_report(const DomainCoverage& coverage, int never_max = kUsualNeverMax);

}  // namespace shardfuzz
