// Laws of the hub and the scheduler (harness/collective) for random programs of collectives: who
// gets what, who disagrees and who waits for ever depend on the program alone, never on the order
// in which the ranks ran.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fuzz/properties/collective_programs.h"
#include "fuzz/properties/property.h"

namespace shardfuzz {
namespace {

ProgramSize any_size() {
  return {.ranks = *rc::gen::inRange(1, 7),
          .groups = *rc::gen::inRange(1, 6),
          .collectives = *rc::gen::inRange(0, 16)};
}

Program any_sound_program() { return make_program(any_seed(), any_size()); }

Program any_faulty_program() {
  ProgramSize size = any_size();
  size.faults = any_int(1, 3);
  return make_program(any_seed(), size);
}

// As any run of the tool has its ranks: on threads (the real target) or on fibers (the native one).
Run run_anywhere(const Program& program) {
  return run(program, any_int(0, 1) == 0 ? RanksOn::kThreads : RanksOn::kFibers);
}

template <typename Kind>
std::vector<Kind> recorded(const Run& run) {
  std::vector<Kind> found;
  for (const Event& event : run.events) {
    if (const auto* payload = std::get_if<Kind>(&event.payload)) found.push_back(*payload);
  }
  return found;
}

// ---- programs without faults --------------------------------------------------------------------

RC_GTEST_PROP(Hub, WhatIsDeliveredIsWhatTheCollectiveIsDefinedToBe, ()) {
  const Program program = any_sound_program();
  RC_LOG() << rc::toString(program);
  const Run result = run_anywhere(program);
  RC_ASSERT(result.outcome == predict(program));
  RC_ASSERT(result.outcome.mismatches.empty());
  RC_ASSERT(recorded<Stuck>(result).empty());
  for (const RankOutcome& rank : result.outcome.ranks) RC_ASSERT(rank.state == "done");
}

RC_GTEST_PROP(Hub, EverySchedulePolicyAndDeliveryGivesTheSameData, ()) {
  Program program = any_sound_program();
  const Outcome first = run_anywhere(program).outcome;
  for (const SchedulePolicy policy :
       {SchedulePolicy::kRoundRobin, SchedulePolicy::kRandom, SchedulePolicy::kPriority}) {
    for (const Delivery delivery : {Delivery::kEarly, Delivery::kLate}) {
      program.schedule = {.policy = policy,
                          .seed = any_seed(),
                          .change_points = any_int(0, 4),
                          .delivery = delivery};
      RC_ASSERT(run_anywhere(program).outcome == first);
    }
  }
}

// ---- programs with faults -----------------------------------------------------------------------

RC_GTEST_PROP(Hub, WithFaultsEveryRankGetsAsFarAsTheProgramPermits, ()) {
  const Program program = any_faulty_program();
  RC_LOG() << rc::toString(program);
  const Run result = run_anywhere(program);
  RC_ASSERT(result.outcome == predict(program));
}

RC_GTEST_PROP(Hub, ARunThatIsStuckSaysSoOnceWithTheStateOfEveryRank, ()) {
  const Program program = any_faulty_program();
  RC_LOG() << rc::toString(program);
  const Outcome expected = predict(program);
  const std::vector<Stuck> stuck = recorded<Stuck>(run_anywhere(program));
  RC_CLASSIFY(expected.is_stuck());
  RC_ASSERT(stuck.size() == (expected.is_stuck() ? 1U : 0U));
  if (stuck.empty()) return;
  RC_ASSERT(!stuck[0].step_bound);
  std::vector<Stuck::Rank> ranks;
  for (std::size_t rank = 0; rank < expected.ranks.size(); ++rank) {
    ranks.push_back({.rank = static_cast<int>(rank),
                     .state = expected.ranks[rank].state,
                     .waits_for = expected.ranks[rank].waits_for});
  }
  RC_ASSERT(stuck[0].ranks == ranks);
}

// Where each event stands in a run; a meeting is named by its group's name and its number.
using Name = std::pair<std::string, std::int64_t>;

struct MeetingEvents {
  std::vector<std::size_t> launches, mismatches, deliveries;
};

std::map<Name, MeetingEvents> by_meeting(const Run& run) {
  std::map<Name, MeetingEvents> found;
  for (std::size_t i = 0; i < run.events.size(); ++i) {
    const Payload& payload = run.events[i].payload;
    if (const auto* launch = std::get_if<Launch>(&payload)) {
      if (launch->sequence >= 0)
        found[{launch->process_group, launch->sequence}].launches.push_back(i);
    } else if (const auto* mismatch = std::get_if<Mismatch>(&payload)) {
      found[{mismatch->process_group, mismatch->sequence}].mismatches.push_back(i);
    } else if (const auto* delivered = std::get_if<Delivered>(&payload)) {
      found[{delivered->process_group, delivered->sequence}].deliveries.push_back(i);
    }
  }
  return found;
}

RC_GTEST_PROP(Hub, DisagreementIsRecordedOnceAfterTheLastLaunchAndBeforeAnyDelivery, ()) {
  const Program program = any_faulty_program();
  RC_LOG() << rc::toString(program);
  const Outcome expected = predict(program);
  RC_CLASSIFY(!expected.mismatches.empty());
  for (const auto& [name, events] : by_meeting(run_anywhere(program))) {
    const Meeting meeting{std::stoi(name.first.substr(1)), name.second};
    RC_ASSERT(events.mismatches.size() == expected.mismatches.count(meeting));
    if (events.deliveries.empty() && events.mismatches.empty()) continue;
    const ProcessGroupId& group = program.groups[static_cast<std::size_t>(meeting.first)];
    RC_ASSERT(events.launches.size() == group.members.size());
    const std::size_t first_told =
        std::min(events.mismatches.empty() ? events.deliveries.front() : events.mismatches.front(),
                 events.deliveries.empty() ? events.mismatches.front() : events.deliveries.front());
    RC_ASSERT(events.launches.back() < first_told);
    if (events.mismatches.empty() || events.deliveries.empty()) continue;
    RC_ASSERT(events.mismatches.front() < events.deliveries.front());
  }
}

RC_GTEST_PROP(Hub, EachWaitThatEndsIsRecordedOnceWithWhatItGave, ()) {
  const Program program = any_faulty_program();
  RC_LOG() << rc::toString(program);
  const Run result = run_anywhere(program);
  const Outcome expected = predict(program);
  std::multiset<std::string> wanted, got;
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const RankProgram& own = program.ranks[rank];
    std::size_t launched = 0;  // the actions launch in the order of the list of launches
    for (const Action& action : own.actions) {
      if (action.kind != Action::Kind::kLaunch) continue;
      if (launched == expected.ranks[rank].launches.size()) break;
      const Meeting meeting = expected.ranks[rank].launches[launched++];
      const auto& output = expected.ranks[rank].outputs[action.which];
      if (!output || meeting.second < 0) continue;
      wanted.insert(fmt::format("{} g{} {} {}", rank, meeting.first, meeting.second,
                                fmt::join(*output, " ")));
    }
  }
  for (const Event& event : result.events) {
    const auto* delivered = std::get_if<Delivered>(&event.payload);
    if (delivered == nullptr) continue;
    got.insert(fmt::format("{} {} {} {}", event.rank, delivered->process_group, delivered->sequence,
                           delivered->digest));
  }
  RC_ASSERT(got == wanted);
}

// ---- determinism --------------------------------------------------------------------------------

RC_GTEST_PROP(Hub, TheSameProgramGivesTheSameEventsAgainOnThreadsAndOnFibers, ()) {
  const Program program = any_faulty_program();
  RC_LOG() << rc::toString(program);
  const std::vector<Event> events = run(program, RanksOn::kThreads).events;
  RC_ASSERT(run(program, RanksOn::kThreads).events == events);
  RC_ASSERT(run(program, RanksOn::kFibers).events == events);
}

}  // namespace
}  // namespace shardfuzz

int main(int argc, char** argv) { return shardfuzz::run_properties(argc, argv, "max_success=500"); }
