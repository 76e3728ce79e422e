// predict(): what must come out of a program; see collective_programs.h.
#include <algorithm>

#include "fuzz/properties/collective_programs.h"

namespace shardfuzz {
namespace {

class Model {
 public:
  explicit Model(const Program& program) : program_(program), at_(program.ranks.size()) {
    for (const RankProgram& own : program.ranks) {
      outcome_.ranks.push_back({.outputs = std::vector<std::optional<Words>>(own.brings.size())});
      meetings_.emplace_back(own.brings.size());
    }
  }

  Outcome run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t rank = 0; rank < at_.size(); ++rank) {
        while (step(rank)) moved = true;
      }
    }
    for (const auto& [meeting, calls] : slots_) note_mismatch(meeting);
    for (std::size_t rank = 0; rank < at_.size(); ++rank) note_end(rank);
    return std::move(outcome_);
  }

 private:
  // By member; null: has not launched.
  using Slot = std::vector<const Contribution*>;

  [[nodiscard]] const std::vector<int>& members_of(int group) const {
    return program_.groups[static_cast<std::size_t>(group)].members;
  }
  [[nodiscard]] std::size_t member_of(int group, std::size_t rank) const {
    const std::vector<int>& members = members_of(group);
    return static_cast<std::size_t>(
        std::find(members.begin(), members.end(), static_cast<int>(rank)) - members.begin());
  }
  [[nodiscard]] const Action* next(std::size_t rank) const {
    const std::vector<Action>& actions = program_.ranks[rank].actions;
    return at_[rank] < actions.size() ? &actions[at_[rank]] : nullptr;
  }

  // False: this rank cannot go on now.
  bool step(std::size_t rank) {
    const Action* action = next(rank);
    if (action == nullptr) return false;
    switch (action->kind) {
      case Action::Kind::kRaise: return false;
      case Action::Kind::kOverwrite: break;
      case Action::Kind::kLaunch: launch(rank, action->which); break;
      case Action::Kind::kWait:
      case Action::Kind::kAsk:
        if (!wait(rank, action->which)) return false;
        break;
    }
    ++at_[rank];
    return true;
  }

  void launch(std::size_t rank, std::size_t which) {
    const Contribution& brings = program_.ranks[rank].brings[which];
    Meeting& meeting = meetings_[rank][which];
    meeting = {brings.group, brings.call.count == 0 ? -1 : launched_[{rank, brings.group}]++};
    outcome_.ranks[rank].launches.push_back(meeting);
    if (meeting.second < 0) return;
    Slot& slot = slots_[meeting];
    slot.resize(members_of(brings.group).size());
    slot[member_of(brings.group, rank)] = &brings;
  }

  bool wait(std::size_t rank, std::size_t which) {
    const Contribution& brings = program_.ranks[rank].brings[which];
    const Meeting& meeting = meetings_[rank][which];
    std::optional<Words>& output = outcome_.ranks[rank].outputs[which];
    const std::size_t member = member_of(brings.group, rank);
    const std::size_t members = members_of(brings.group).size();
    if (meeting.second < 0) {
      output = output_before(brings, member, members);
      return true;
    }
    const Slot& slot = slots_[meeting];
    if (!is_complete(slot)) return false;
    output = agrees(slot) ? result_of(slot, member) : poisoned(brings, member, members);
    return true;
  }

  static bool is_complete(const Slot& slot) {
    return std::count(slot.begin(), slot.end(), nullptr) == 0;
  }
  static bool agrees(const Slot& slot) {
    return std::all_of(slot.begin(), slot.end(), [&](const Contribution* member) {
      Call call = member->call;
      call.rank = slot[0]->call.rank;
      return call == slot[0]->call;
    });
  }

  void note_mismatch(const Meeting& meeting) {
    const Slot& slot = slots_[meeting];
    if (!is_complete(slot) || agrees(slot)) return;
    std::vector<Call>& calls = outcome_.mismatches[meeting];
    for (std::size_t member = 0; member < slot.size(); ++member) {
      calls.push_back(slot[member]->call);
      calls.back().rank = members_of(meeting.first)[member];
    }
  }

  void note_end(std::size_t rank) {
    RankOutcome& own = outcome_.ranks[rank];
    const Action* action = next(rank);
    own.state = action == nullptr                      ? "done"
                : action->kind == Action::Kind::kRaise ? "raised"
                                                       : "waits";
    if (own.state != "waits") return;
    const Contribution& brings = program_.ranks[rank].brings[action->which];
    const Meeting& meeting = meetings_[rank][action->which];
    own.waits_for = brings.call.kind + " " + std::to_string(meeting.second) + " of group " +
                    program_.groups[static_cast<std::size_t>(meeting.first)].name;
  }

  const Program& program_;
  std::vector<std::size_t> at_;                 // by rank: index of its next action
  std::vector<std::vector<Meeting>> meetings_;  // by rank and what it brought
  std::map<std::pair<std::size_t, int>, std::int64_t> launched_;  // by rank and group
  std::map<Meeting, Slot> slots_;
  Outcome outcome_;
};

}  // namespace

bool Outcome::is_stuck() const {
  return std::any_of(ranks.begin(), ranks.end(),
                     [](const RankOutcome& rank) { return rank.state == "waits"; });
}

Outcome predict(const Program& program) { return Model(program).run(); }

}  // namespace shardfuzz
