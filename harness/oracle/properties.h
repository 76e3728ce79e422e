// The properties: rules that a trace must obey, each in its own file p<number>_<name>.cc.
//
// A property looks at one (case, rule book, trace) and adds a Finding for each violation it can
// name. It never throws and never looks at another property's findings. P11 and P12 compare several
// traces of one case and have functions of their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/oracle/expected.h"
#include "harness/oracle/verdict.h"
#include "harness/trace/trace.h"

namespace shardfuzz {

using Findings = std::vector<Finding>;

void check_shape_contract(const Expected&, const Trace&, Findings*);        // P1
void check_collective_agreement(const Expected&, const Trace&, Findings*);  // P2
void check_no_divergence(const Expected&, const Trace&, Findings*);         // P3
void check_storage(const Expected&, const Trace&, Findings*);               // P4
void check_bytes(const Expected&, const Trace&, Findings*);                 // P5
void check_reference(const Expected&, const Trace&, Findings*);             // P6
void check_kept_types(const Expected&, const Trace&, Findings*);            // P7
void check_ledger(const Expected&, const Trace&, Findings*);                // P9
void check_memory(const Expected&, const Trace&, Findings*);                // P10

struct Property {
  const char* name;  // "P1"
  const char* rule;  // one line
  void (*check)(const Expected&, const Trace&, Findings*);
};
// All of the above, in causal order.
const std::vector<Property>& all_properties();

// P11: two runs of one case must give the same trace.
void check_determinism(const Trace& first, const Trace& second, Findings*);

// P12: the same model on other meshes must end with the same full tensors. `traces[0]` is the
// case's own mesh; exact where the data permit, else within 2^-6 of the largest value.
void check_mesh_relations(const std::vector<Trace>& traces, Findings*);

// Helpers that the property files share.
inline std::string path_of(const std::string& group, const std::string& param) {
  return group.empty() ? param : group + "." + param;
}
std::string shape_text(const std::vector<std::int64_t>& shape);  // "[1, 16, 32]"
bool has_real_exception(const Trace& trace);  // some rank raised, other than by our own unwinding
// The rule book's life can be held against the trace: all ranks do the same by the case, and did.
bool follows_life(const Expected& expected, const Trace& trace);
// The operation of the program that an event belongs to, as an index into the life's; else -1.
std::int64_t operation_of(const Expected& expected, const Event& event);

}  // namespace shardfuzz
