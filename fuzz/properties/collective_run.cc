// run(): a program with a real scheduler and a real hub; see collective_programs.h.
#include <algorithm>
#include <memory>
#include <stdexcept>

#include "fuzz/properties/collective_programs.h"

namespace shardfuzz {
namespace {

constexpr int kOverwritten = 7777;

struct Buffers {
  Words input, output;
  bool is_in_place = false;  // input is the output
  [[nodiscard]] Words& sent() { return is_in_place ? output : input; }
};

class WordTransfer : public Transfer {
 public:
  WordTransfer(const Contribution* brings, Buffers* buffers, std::size_t member)
      : brings_(brings), buffers_(buffers), member_(member) {}

  std::string input_digest() const override { return text_of(buffers_->sent()); }
  std::string output_digest() const override { return text_of(buffers_->output); }
  void take_input() override {
    if (std::exchange(has_taken_, true)) return;
    taken_ = *brings_;
    taken_.input = buffers_->sent();
  }
  void give_output(const std::vector<const Transfer*>& members) override {
    std::vector<const Contribution*> all;
    for (const Transfer* member : members) {
      all.push_back(&static_cast<const WordTransfer*>(member)->taken_);
    }
    buffers_->output = result_of(all, member_);
  }
  void poison_output() override {
    Words& output = buffers_->output;
    const std::size_t slot = buffers_->input.size();
    const bool has_own = brings_->call.kind == "all_gather";
    for (std::size_t i = 0; i < output.size(); ++i) {
      if (!has_own || i / slot != member_) output[i] = kPoisonWord;
    }
  }
  void release_buffers() override { buffers_ = nullptr; }

 private:
  const Contribution* brings_;
  Buffers* buffers_;
  std::size_t member_;
  Contribution taken_;
  bool has_taken_ = false;
};

// One rank's way through its actions. The buffers outlive it: peers read them after a raise.
class RankRun {
 public:
  RankRun(const Program& program, int rank, World* world, RankOutcome* outcome)
      : program_(program),
        own_(program.ranks[static_cast<std::size_t>(rank)]),
        rank_(rank),
        world_(world),
        outcome_(outcome),
        buffers_(own_.brings.size()),
        tickets_(own_.brings.size()) {
    outcome_->outputs.resize(own_.brings.size());
  }

  void run() {
    outcome_->state = "waits";  // until it gets to its end
    for (const Action& action : own_.actions) take(action);
    outcome_->state = "done";
  }

 private:
  void take(const Action& action) {
    switch (action.kind) {
      case Action::Kind::kLaunch: return launch(action.which);
      case Action::Kind::kAsk:
        while (!world_->hub.is_complete(tickets_[action.which])) {
        }
        return note_output(action.which);
      case Action::Kind::kWait:
        world_->hub.wait(tickets_[action.which]);
        return note_output(action.which);
      case Action::Kind::kOverwrite:
        for (int& word : buffers_[action.which].sent()) word = kOverwritten;
        return;
      case Action::Kind::kRaise:
        outcome_->state = "raised";
        throw std::runtime_error("a fault of the program");
    }
  }

  void launch(std::size_t which) {
    const Contribution& brings = own_.brings[which];
    const ProcessGroupId& group = program_.groups[static_cast<std::size_t>(brings.group)];
    const auto member = static_cast<std::size_t>(
        std::find(group.members.begin(), group.members.end(), rank_) - group.members.begin());
    buffers_[which] = {
        .input = brings.input,
        .output = output_before(brings, member, group.members.size()),
        .is_in_place = brings.call.kind == "all_reduce" || brings.call.kind == "broadcast"};
    tickets_[which] =
        world_->hub.launch(group, static_cast<int>(member), brings.call,
                           std::make_unique<WordTransfer>(&brings, &buffers_[which], member));
  }

  void note_output(std::size_t which) {
    // A second wait finds what the first one gave, or what its owner has put there since.
    if (!outcome_->outputs[which]) outcome_->outputs[which] = buffers_[which].output;
  }

  const Program& program_;
  const RankProgram& own_;
  int rank_;
  World* world_;
  RankOutcome* outcome_;
  std::vector<Buffers> buffers_;
  std::vector<Hub::Ticket> tickets_;
};

Meeting meeting_of(const std::string& group_name, std::int64_t sequence) {
  return {std::stoi(group_name.substr(1)), sequence};
}

void note_events(const std::vector<Event>& events, Outcome* outcome) {
  for (const Event& event : events) {
    if (const auto* launch = std::get_if<Launch>(&event.payload)) {
      outcome->ranks[static_cast<std::size_t>(event.rank)].launches.push_back(
          meeting_of(launch->process_group, launch->sequence));
    } else if (const auto* mismatch = std::get_if<Mismatch>(&event.payload)) {
      outcome->mismatches[meeting_of(mismatch->process_group, mismatch->sequence)] =
          mismatch->calls;
    } else if (const auto* stuck = std::get_if<Stuck>(&event.payload)) {
      for (const Stuck::Rank& rank : stuck->ranks) {
        outcome->ranks[static_cast<std::size_t>(rank.rank)].waits_for = rank.waits_for;
      }
    }
  }
}

}  // namespace

Run run(const Program& program, RanksOn on) {
  const int rank_count = static_cast<int>(program.ranks.size());
  World world({.ranks = rank_count, .schedule = program.schedule, .on = on});
  Run result;
  result.outcome.ranks.resize(program.ranks.size());
  std::vector<std::unique_ptr<RankRun>> ranks;
  for (int rank = 0; rank < rank_count; ++rank) {
    ranks.push_back(std::make_unique<RankRun>(
        program, rank, &world, &result.outcome.ranks[static_cast<std::size_t>(rank)]));
  }
  world.run([&](int rank) { ranks[static_cast<std::size_t>(rank)]->run(); });
  result.events = world.recorder.events();
  note_events(result.events, &result.outcome);
  return result;
}

}  // namespace shardfuzz
