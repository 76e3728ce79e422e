// P12: the same model, with the same data on every rank, ends with the same full tensors on any
// mesh.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "harness/oracle/properties.h"

namespace shardfuzz {
namespace {

using Finals = std::map<std::string, std::pair<const Event*, const Final*>>;

Finals finals_of(const Trace& trace) {
  Finals finals;
  for_each<Final>(trace, [&](const Event& event, const Final& final) {
    finals[path_of(final.group, final.param)] = {&event, &final};
  });
  return finals;
}

bool close(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  double largest = 1.0;
  for (const double value : a) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= largest / 64.0)) return false;
  }
  return true;
}

}  // namespace

void check_mesh_relations(const std::vector<Trace>& traces, Findings* findings) {
  if (traces.empty()) return;
  const Finals base = finals_of(traces[0]);
  for (std::size_t other = 1; other < traces.size(); ++other) {
    for (const auto& [path, final] : finals_of(traces[other])) {
      const auto found = base.find(path);
      if (found == base.end()) continue;
      const Final& a = *found->second.second;
      const Final& b = *final.second;
      const bool exact = a.exact && b.exact;
      if (exact ? a.digest == b.digest : close(a.sample, b.sample)) continue;
      findings->push_back(
          {.property = "P12",
           .group = a.group,
           .param = a.param,
           .phase = "end",
           .step = found->second.first->step,
           .sentence =
               fmt::format("{} ends with other values on mesh [{}] than on mesh [{}]", path,
                           fmt::join(traces[other].mesh, ", "), fmt::join(traces[0].mesh, ", ")),
           .event = found->second.first->index});
    }
  }
}

}  // namespace shardfuzz
