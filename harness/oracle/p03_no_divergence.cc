// P3: all ranks raise or none does. One that raises while others wait is a hang on real GPUs.
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "harness/oracle/properties.h"

namespace shardfuzz {
namespace {

struct Outcome {
  const Event* raised = nullptr;  // by the code under test
  bool finished = false;
};

std::vector<Outcome> outcomes_of(const Trace& trace) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(trace.world_size));
  for (const Event& event : trace.events) {
    if (event.rank < 0) continue;
    Outcome& outcome = outcomes.at(static_cast<std::size_t>(event.rank));
    if (const auto* raised = std::get_if<Raised>(&event.payload)) {
      if (!raised->by_harness) outcome.raised = &event;
    }
    if (std::holds_alternative<Finished>(event.payload)) outcome.finished = true;
  }
  return outcomes;
}

std::string waits_text(const Trace& trace, const std::vector<Outcome>& outcomes) {
  std::vector<std::string> texts;
  for_each<Stuck>(trace, [&](const Event&, const Stuck& stuck) {
    for (const Stuck::Rank& rank : stuck.ranks) {
      if (rank.state == "waits") {
        texts.push_back(fmt::format("rank {} waits in {}", rank.rank, rank.waits_for));
      }
    }
  });
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank].finished) texts.push_back(fmt::format("rank {} finishes", rank));
  }
  return texts.empty() ? "the others go on" : fmt::format("{}", fmt::join(texts, ", "));
}

// In program order, so that it does not depend on the order in which the ranks took turns.
bool before(const Event& a, const Event& b) {
  return std::tie(a.step, a.operation, a.rank) < std::tie(b.step, b.operation, b.rank);
}

void note_partial(const Trace& trace, const std::vector<Outcome>& outcomes, Findings* findings) {
  const Event* first = nullptr;
  std::vector<std::string> who;
  for (const Outcome& outcome : outcomes) {
    if (outcome.raised == nullptr) continue;
    if (first == nullptr || before(*outcome.raised, *first)) first = outcome.raised;
    who.push_back(fmt::format("rank {} raises {}", outcome.raised->rank,
                              std::get<Raised>(outcome.raised->payload).type));
  }
  if (first == nullptr || who.size() == outcomes.size()) return;
  const auto& raised = std::get<Raised>(first->payload);
  findings->push_back({.property = "P3",
                       .rank = first->rank,
                       .group = raised.group,
                       .param = raised.param,
                       .phase = first->phase,
                       .step = first->step,
                       .sentence = fmt::format("{} in {}, {}", fmt::join(who, ", "), first->phase,
                                               waits_text(trace, outcomes)),
                       .event = first->index});
}

}  // namespace

void check_no_divergence(const Expected&, const Trace& trace, Findings* findings) {
  const std::vector<Outcome> outcomes = outcomes_of(trace);
  note_partial(trace, outcomes, findings);
  if (has_real_exception(trace)) return;
  for_each<Stuck>(trace, [&](const Event& event, const Stuck& stuck) {
    Finding finding{.property = "P3", .phase = event.phase, .event = event.index};
    const auto waiting = std::find_if(stuck.ranks.begin(), stuck.ranks.end(), [](const auto& rank) {
      return rank.state == "waits" || rank.state == "runs";
    });
    if (waiting != stuck.ranks.end()) finding.rank = waiting->rank;
    for (const Event& other : trace.events) {  // the place is that of the lowest waiting rank
      if (other.rank == finding.rank && other.index < event.index) {
        finding.step = other.step;
        finding.phase = other.phase;
      }
    }
    finding.sentence = stuck.step_bound
                           ? "the ranks go on handing over without end (step bound reached)"
                           : "no rank can go on: " + waits_text(trace, outcomes);
    findings->push_back(std::move(finding));
  });
}

}  // namespace shardfuzz
