#include "harness/collective/hub.h"

#include <algorithm>
#include <utility>

#include "harness/base/check.h"

namespace shardfuzz {

// One meeting of all members of a group.
struct Hub::Slot {
  ProcessGroupId group;
  std::int64_t sequence = 0;
  std::vector<Call> calls;                           // by member
  std::vector<std::unique_ptr<Transfer>> transfers;  // null: has not launched
  std::vector<bool> given;                           // output written or poisoned
  std::vector<bool> told;                            // Delivered is recorded
  std::size_t launched = 0;
  bool agreed = false;
  bool taken = false;  // all inputs copied
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
  GroupState& state = groups_[{group.key, group.members}];
  state.next_sequence.resize(group.members.size());
  const std::int64_t sequence = state.next_sequence[static_cast<std::size_t>(member)]++;
  event.sequence = sequence;
  recorder_->record(rank, std::move(event));

  std::shared_ptr<Slot>& entry = state.open[sequence];
  if (!entry) {
    entry = std::make_shared<Slot>();
    entry->group = group;
    entry->sequence = sequence;
    entry->calls.resize(group.members.size());
    entry->transfers.resize(group.members.size());
    entry->given.resize(group.members.size());
    entry->told.resize(group.members.size());
  }
  const std::shared_ptr<Slot> slot = entry;
  const auto at = static_cast<std::size_t>(member);
  if (delivery_ == Delivery::kEarly) transfer->take_input();
  slot->calls[at] = std::move(call);
  slot->transfers[at] = std::move(transfer);
  if (++slot->launched == group.members.size()) {
    state.open.erase(sequence);
    settle(*slot);
  }
  scheduler_->yield(rank);
  return {.slot = slot, .member = member, .rank = rank};
}

// All members have launched: compare, then move (early) and let the waiting ones go on.
void Hub::settle(Slot& slot) {
  slot.agreed = std::all_of(slot.calls.begin(), slot.calls.end(),
                            [&](const Call& call) { return same_call(call, slot.calls[0]); });
  if (!slot.agreed) {
    recorder_->record(-1, Mismatch{.process_group = slot.group.name,
                                   .members = slot.group.members,
                                   .sequence = slot.sequence,
                                   .calls = slot.calls});
  }
  // First, so that a transfer that throws ends this rank only: the others hold no baton yet.
  for (const int rank : slot.group.members) scheduler_->unpark(rank);
  if (delivery_ == Delivery::kEarly) {
    slot.taken = true;
    for (std::size_t member = 0; member < slot.transfers.size(); ++member) {
      give(slot, static_cast<int>(member));
    }
  }
}

void Hub::give(Slot& slot, int member) {
  const auto at = static_cast<std::size_t>(member);
  if (slot.given[at]) return;
  slot.given[at] = true;
  if (!slot.agreed) {
    slot.transfers[at]->poison_output();
    return;
  }
  if (!slot.taken) {
    slot.taken = true;
    for (auto& transfer : slot.transfers) transfer->take_input();
  }
  std::vector<const Transfer*> members;
  for (const auto& transfer : slot.transfers) members.push_back(transfer.get());
  slot.transfers[at]->give_output(members);
}

void Hub::wait(const Ticket& ticket) {
  if (!ticket.slot) return;
  Slot& slot = *ticket.slot;
  const auto at = static_cast<std::size_t>(ticket.member);
  const std::string& kind = slot.calls[at].kind;
  while (slot.launched < slot.group.members.size()) {
    throw_if_stopped();
    const Wake wake = scheduler_->park(ticket.rank, describe(slot, kind));
    if (wake != Wake::kGo) throw_if_stopped();
  }
  tell(slot, ticket);
  scheduler_->yield(ticket.rank);
}

// Gives this rank its output, once, and records it.
void Hub::tell(Slot& slot, const Ticket& ticket) {
  const auto at = static_cast<std::size_t>(ticket.member);
  give(slot, ticket.member);
  if (slot.told[at]) return;
  slot.told[at] = true;
  recorder_->record(ticket.rank, Delivered{.process_group = slot.group.name,
                                           .members = slot.group.members,
                                           .sequence = slot.sequence,
                                           .kind = slot.calls[at].kind,
                                           .digest = slot.transfers[at]->output_digest()});
}

bool Hub::is_complete(const Ticket& ticket) {
  if (!ticket.slot) return true;
  Slot& slot = *ticket.slot;
  if (slot.launched < slot.group.members.size()) {
    throw_if_stopped();
    scheduler_->poll(ticket.rank);
    if (slot.launched < slot.group.members.size()) return false;
  }
  tell(slot, ticket);
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
  return fmt::format("{} {} of group {}", kind, slot.sequence, slot.group.name);
}

}  // namespace

}  // namespace shardfuzz
