#include "harness/collective/hub.h"

#include <algorithm>
#include <utility>

#include "harness/base/check.h"

namespace shardfuzz {

// One meeting of all members of a group.
struct Hub::Slot {
  struct Member {
    Call call;
    std::unique_ptr<Transfer> transfer;  // null: has not launched
    bool given = false;                  // output written or poisoned
    bool told = false;                   // Delivered is recorded
  };
  std::string group_name;
  std::vector<int> ranks;  // of the members
  std::int64_t sequence = 0;
  std::vector<Member> members;
  std::vector<const Transfer*> inputs;  // of all members, once copied
  std::size_t launched = 0;
  bool agreed = false;

  void give(Member& to, Delivery delivery);
};

namespace {

bool same_call(const Call& a, const Call& b) {
  return a.kind == b.kind && a.count == b.count && a.dtype == b.dtype && a.root == b.root &&
         a.reduce == b.reduce;
}

std::string describe(const Hub::Slot& slot, const std::string& kind);

}  // namespace

Hub::Hub(int world_size, Delivery delivery, Recorder* recorder)
    : delivery_(delivery), recorder_(recorder), raised_(static_cast<std::size_t>(world_size)) {}

Hub::Ticket Hub::launch(const ProcessGroupId& group, int member, Call call,
                        std::unique_ptr<Transfer> transfer) {
  throw_if_stopped();
  const int rank = group.members.at(static_cast<std::size_t>(member));
  call.rank = rank;
  Launch event{.process_group = group.name,
               .members = group.members,
               .call = call,
               .digest = transfer->input_digest()};
  if (call.count == 0) {  // H2
    recorder_->record(rank, std::move(event));
    return {.slot = nullptr, .member = member, .rank = rank};
  }
  GroupState& state = groups_[group];
  state.next_sequence.resize(group.members.size());
  const std::int64_t sequence = state.next_sequence[static_cast<std::size_t>(member)]++;
  event.sequence = sequence;
  recorder_->record(rank, std::move(event));

  std::shared_ptr<Slot>& entry = state.open[sequence];
  if (!entry) {
    entry = std::make_shared<Slot>();
    entry->group_name = group.name;
    entry->ranks = group.members;
    entry->sequence = sequence;
    entry->members.resize(group.members.size());
  }
  const std::shared_ptr<Slot> slot = entry;
  if (delivery_ == Delivery::kEarly) transfer->take_input();
  Slot::Member& own = slot->members[static_cast<std::size_t>(member)];
  own.call = std::move(call);
  own.transfer = std::move(transfer);
  if (++slot->launched == group.members.size()) {
    state.open.erase(sequence);
    settle(*slot);
  }
  scheduler_->yield(rank);
  return {.slot = slot, .member = member, .rank = rank, .sequence = sequence};
}

// All members have launched: compare, then move (early) and let the waiting ones go on.
void Hub::settle(Slot& slot) {
  slot.agreed = std::all_of(slot.members.begin(), slot.members.end(), [&](const auto& member) {
    return same_call(member.call, slot.members[0].call);
  });
  if (!slot.agreed) {
    Mismatch mismatch{
        .process_group = slot.group_name, .members = slot.ranks, .sequence = slot.sequence};
    for (const Slot::Member& member : slot.members) mismatch.calls.push_back(member.call);
    recorder_->record(-1, std::move(mismatch));
  }
  // First, so that a transfer that throws ends this rank only: the others hold no baton yet.
  for (const int rank : slot.ranks) scheduler_->unpark(rank);
  if (delivery_ == Delivery::kEarly) {
    for (Slot::Member& member : slot.members) slot.give(member, delivery_);
  }
}

// Writes one output, once; the first to get one (late) takes the inputs of all.
void Hub::Slot::give(Member& to, Delivery delivery) {
  if (std::exchange(to.given, true)) return;
  if (!agreed) {
    to.transfer->poison_output();
    return;
  }
  if (inputs.empty()) {
    for (const Member& member : members) inputs.push_back(member.transfer.get());
    if (delivery == Delivery::kLate) {
      for (const Member& member : members) member.transfer->take_input();
    }
  }
  to.transfer->give_output(inputs);
}

void Hub::wait(const Ticket& ticket) {
  if (!ticket.slot) return;
  Slot& slot = *ticket.slot;
  Slot::Member& own = slot.members[static_cast<std::size_t>(ticket.member)];
  while (slot.launched < slot.members.size()) {
    throw_if_stopped();
    const Wake wake = scheduler_->park(ticket.rank, [&] { return describe(slot, own.call.kind); });
    if (wake != Wake::kGo) throw_if_stopped();
  }
  tell(ticket);
  scheduler_->yield(ticket.rank);
}

// Gives this rank its output, once, and records it. From here on what the code under test does not
// hold itself is gone, however long the other ranks take.
void Hub::tell(const Ticket& ticket) {
  Slot& slot = *ticket.slot;
  Slot::Member& own = slot.members[static_cast<std::size_t>(ticket.member)];
  slot.give(own, delivery_);
  if (std::exchange(own.told, true)) return;
  recorder_->record(ticket.rank, Delivered{.process_group = slot.group_name,
                                           .members = slot.ranks,
                                           .sequence = slot.sequence,
                                           .kind = own.call.kind,
                                           .digest = own.transfer->output_digest()});
  own.transfer->release_buffers();
}

bool Hub::is_complete(const Ticket& ticket) {
  if (!ticket.slot) return true;
  Slot& slot = *ticket.slot;
  if (slot.launched < slot.members.size()) {
    throw_if_stopped();
    scheduler_->poll(ticket.rank);
    if (slot.launched < slot.members.size()) return false;
  }
  tell(ticket);
  return true;
}

void Hub::throw_if_stopped() const {
  if (scheduler_->stopped()) {
    throw StuckError("shardfuzz: no rank can go on; this rank's collective will never complete");
  }
}

void Hub::record_stuck(Wake reason, const std::vector<Scheduler::RankView>& ranks) {
  Stuck stuck{.step_bound = reason == Wake::kStepBound};
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const bool waits = ranks[rank].state == Scheduler::State::kParked;
    const bool done = ranks[rank].state == Scheduler::State::kDone;
    stuck.ranks.push_back({.rank = static_cast<int>(rank),
                           .state = waits           ? "waits"
                                    : raised_[rank] ? "raised"
                                    : done          ? "done"
                                                    : "runs",
                           .waits_for = ranks[rank].waits_for});
  }
  recorder_->record(-1, std::move(stuck));
}

namespace {

std::string describe(const Hub::Slot& slot, const std::string& kind) {
  return fmt::format("{} {} of group {}", kind, slot.sequence, slot.group_name);
}

}  // namespace

}  // namespace shardfuzz
