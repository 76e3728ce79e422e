// P11: the same case gives the same trace.
#include <fmt/format.h>

#include "harness/oracle/properties.h"

namespace shardfuzz {

void check_determinism(const Trace& first, const Trace& second, Findings* findings) {
  const std::size_t common = std::min(first.events.size(), second.events.size());
  std::size_t at = 0;
  while (at < common && first.events[at] == second.events[at]) ++at;
  if (at == common && first.events.size() == second.events.size()) return;
  Finding finding{.property = "P11", .phase = "repeat"};
  if (at < common) {
    const Event& event = first.events[at];
    finding.rank = event.rank;
    finding.step = event.step;
    finding.phase = event.phase;
    finding.event = event.index;
    finding.sentence = fmt::format("two runs of the case differ at event {}: {} and {}", at,
                                   event_text(event), event_text(second.events[at]));
  } else {
    finding.sentence = fmt::format("two runs of the case have {} and {} events",
                                   first.events.size(), second.events.size());
  }
  findings->push_back(std::move(finding));
}

}  // namespace shardfuzz
