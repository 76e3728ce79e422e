// generate_steered: a case like generate()'s, aimed at a cell that no case has visited yet.
//
// A cell is picked among those that are possible and never visited. Its classes are turned into
// options of the generator (the pack, the number of ranks, features that must be on, often, or
// off); then cases are generated until one visits a cell for the first time, the picked one or
// another. Classes that have no switch, such as most kinds of evenness, are left to chance: a case
// takes microseconds to generate and milliseconds to run.
// Guarantees: as generate(), but that features may appear that options.swarm has off; the case
// depends on the choices, the options and the coverage only; a few draws whatever the number of
// tries. After kSteerTries misses, or where nothing is left, it is a case of generate() with the
// options as they are: cells out of reach do not narrow down a run.
// Needs a lattice of options.packs and options.world_max: it aims at every pack of the lattice, and
// cells of more ranks cost kSteerTries cases each time. Where a case is changed before it runs
// (documented_use.h), visit what will run.
// The draws say where to aim, not what is in the case, so mutating them (libFuzzer) is no use:
// there DomainCoverage::counters() steer.
// Use:  const Case c = generate_steered(choices, options, coverage);  coverage.visit(c);
#pragma once

#include "fuzz/domain.h"
#include "fuzz/generator.h"

namespace shardfuzz {

inline constexpr int kSteerTries = 100;

Case generate_steered(Choices& choices, const GeneratorOptions& options,
                      const DomainCoverage& coverage);

// The options that bring the generator near a point (kAnyClass: as they are). Exposed for tests.
GeneratorOptions aimed_at(const DomainPoint& point, const DomainLattice& lattice,
                          const GeneratorOptions& options);

}  // namespace shardfuzz
