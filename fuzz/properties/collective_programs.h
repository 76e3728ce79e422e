// Random programs of collectives for simulated ranks, and what must come out of them.
//
// A program is a list of actions for each rank. Without faults all ranks launch the same
// collectives in one order, in groups of any members, and wait for them in any order and at any
// time, so nobody can get stuck. Faults leave out, add, exchange or change what single ranks do.
// predict() is the model: ranks meet by order alone (hub.h, H1 and H2), so who gets what, who
// disagrees and who waits for ever depend on the program and not on the schedule. It runs each rank
// as far as it gets, again and again until nobody gets further.
// Use:  const Program program = make_program(seed, {.ranks = 3}, {.faults = 1});
//       run(program, RanksOn::kFibers).outcome must equal predict(program)
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "harness/case/case.h"
#include "harness/collective/test_world.h"
#include "harness/trace/event.h"

namespace shardfuzz {

using Words = std::vector<int>;

inline constexpr int kPoisonWord = -1;

// What one rank brings to a collective.
struct Contribution {
  int group = 0;  // index in Program::groups
  Call call;
  Words input;
};

struct Action {
  enum class Kind {
    kLaunch,
    kWait,
    kAsk,        // until it is complete
    kOverwrite,  // its own input, which nobody may need any more
    kRaise,
  };
  Kind kind = Kind::kLaunch;
  std::size_t which = 0;  // index in RankProgram::brings
};

struct RankProgram {
  std::vector<Contribution> brings;
  std::vector<Action> actions;
};

struct Program {
  Schedule schedule;
  std::vector<ProcessGroupId> groups;
  std::vector<RankProgram> ranks;
};

struct ProgramSize {
  int ranks = 2, groups = 1, collectives = 1;
  int faults = 0;
};

Program make_program(std::uint64_t seed, const ProgramSize& size);

// A meeting of a group: index of the group, sequence number.
using Meeting = std::pair<int, std::int64_t>;

struct RankOutcome {
  // By what the rank brought: its buffer after its wait, where it came so far.
  std::vector<std::optional<Words>> outputs;
  // Of its launches, in order; -1: count 0.
  std::vector<Meeting> launches;
  std::string state;      // "done", "raised", "waits"
  std::string waits_for;  // as hub.h words it
  bool operator==(const RankOutcome&) const = default;
};

struct Outcome {
  std::vector<RankOutcome> ranks;
  std::map<Meeting, std::vector<Call>> mismatches;
  [[nodiscard]] bool is_stuck() const;
  bool operator==(const Outcome&) const = default;
};

Outcome predict(const Program& program);

struct Run {
  Outcome outcome;
  std::vector<Event> events;
};

Run run(const Program& program, RanksOn on);

// The definition of the collectives: what a member's output is, given what all members brought.
Words result_of(const std::vector<const Contribution*>& members, std::size_t member);
// Before anything is delivered: FSDP2 fills its own slot of an all-gather itself.
Words output_before(const Contribution& own, std::size_t member, std::size_t members);
// After a disagreement.
Words poisoned(const Contribution& own, std::size_t member, std::size_t members);

void showValue(const Program& program, std::ostream& out);  // NOLINT(readability-identifier-naming)
void showValue(const Outcome& outcome, std::ostream& out);  // NOLINT(readability-identifier-naming)

}  // namespace shardfuzz
