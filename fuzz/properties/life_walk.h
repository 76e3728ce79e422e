// Walks a trace along the abstract model of its case (parameter_life.h), operation by operation and
// rank by rank, and tells the first thing that is not as predicted.
//
// Checked: every gather is sent, held and let go when predicted and as often (so a second unshard
// sends nothing); bytes held and kept after forward, backward and step; requires_grad of the
// unsharded and of the sharded parameter; a gradient is there iff predicted, has the local shape
// and the original dtype, and changes only when something was reduced into it; equal values are
// equal bytes wherever they are seen: in what a rank sends, in each rank's rows of what is
// gathered, after a step, on every replica; a parameter whose gradient is not zero changes at a
// step and no other does; what is loaded is as saved. Where the model carries the values themselves
// (exact_values.h), gradients and stepped parameters are compared with them, bit for bit.
// A raise is one too: a legal program never raises.
#pragma once

#include <string>

#include "harness/case/case.h"
#include "harness/trace/trace.h"

namespace shardfuzz {

struct Departure {
  std::string what;      // a word without numbers: "raised", "deeds", "held", ...; empty: none
  std::string sentence;  // with rank, parameter, operation and numbers
};

// The program must be legal (checked). One trace, from whichever target.
Departure walk(const Case& c, const Trace& trace);

}  // namespace shardfuzz
