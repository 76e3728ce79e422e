#include "harness/collective/rank_queue.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "harness/base/check.h"

namespace shardfuzz {
namespace {

using State = Scheduler::State;

// Change points fall uniformly in this many first hand-overs: about the length of a small case.
constexpr int kChangePointRange = 64;

}  // namespace

RankQueue::RankQueue(int rank_count, const Schedule& schedule, Scheduler::OnStop on_stop,
                     int max_hand_overs)
    : policy_(schedule.policy),
      max_hand_overs_(max_hand_overs),
      random_(schedule.seed),
      on_stop_(std::move(on_stop)) {
  SHARDFUZZ_CHECK(rank_count > 0, "a world needs a rank");
  ranks_.resize(static_cast<std::size_t>(rank_count));
  candidates_.reserve(ranks_.size());
  late_.reserve(ranks_.size());
  std::vector<int> order(ranks_.size());
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) {  // Fisher-Yates
    std::swap(order[i - 1], order[random_.below(i)]);
  }
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    ranks_[rank].priority = order[rank];
    if (rank < schedule.delays.size()) ranks_[rank].delay_left = schedule.delays[rank];
  }
  for (int i = 0; i < schedule.change_points; ++i) {
    change_at_.push_back(1 + static_cast<int>(random_.below(kChangePointRange)));  // counts from 1
  }
}

std::optional<int> RankQueue::enter(int rank) {
  Rank& self = ranks_.at(static_cast<std::size_t>(rank));
  SHARDFUZZ_CHECK(self.state == State::kNotEntered, "rank {} entered twice", rank);
  self.state = State::kRunnable;
  if (++entered_ < static_cast<int>(ranks_.size())) return std::nullopt;
  return choose(-1);
}

int RankQueue::yield(int rank) {
  if (stopped()) return rank;  // ranks unwind one after the other
  give_up_baton(rank, State::kRunnable);
  return hand_over(rank);
}

int RankQueue::poll(int rank) {
  rank_at(rank).priority = --lowest_priority_;
  return yield(rank);
}

int RankQueue::park(int rank, const Scheduler::WaitsFor& waits_for) {
  if (stopped()) return rank;
  give_up_baton(rank, State::kParked).waits_for = &waits_for;
  return hand_over(rank);
}

std::optional<int> RankQueue::leave(int rank) {
  give_up_baton(rank, State::kDone);
  if (++done_ == static_cast<int>(ranks_.size())) return std::nullopt;
  return hand_over(rank);
}

void RankQueue::unpark(int rank) {
  Rank& other = rank_at(rank);
  if (other.state == State::kParked) other.state = State::kRunnable;
}

bool RankQueue::runs(int rank) const { return rank_at(rank).state == State::kRunning; }

RankQueue::Rank& RankQueue::give_up_baton(int rank, State state) {
  Rank& self = ranks_.at(static_cast<std::size_t>(rank));
  SHARDFUZZ_CHECK(self.state == State::kRunning, "rank {} does not hold the baton", rank);
  self.state = state;
  return self;
}

int RankQueue::hand_over(int from) {
  if (++hand_overs_ > max_hand_overs_ && !stopped()) stop(Wake::kStepBound);
  apply_change_point(from);
  if (!anyone_runnable()) stop(Wake::kDeadlock);
  return choose(from);
}

bool RankQueue::anyone_runnable() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.state == State::kRunnable; });
}

int RankQueue::choose(int from) {
  find_candidates();
  SHARDFUZZ_CHECK(!candidates_.empty(), "no rank to choose after rank {}", from);
  const int next = stopped() ? candidates_.front() : pick(from);
  rank_at(next).state = State::kRunning;
  return next;
}

// The runnable ranks whose delay is over, or all runnable ranks where there is none; a rank that is
// passed over has one turn less to wait. Delays end with a stop.
void RankQueue::find_candidates() {
  candidates_.clear();
  late_.clear();
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    Rank& state = ranks_[rank];
    if (state.state != State::kRunnable) continue;
    const bool late = state.delay_left > 0 && !stopped();
    if (late) --state.delay_left;
    (late ? late_ : candidates_).push_back(static_cast<int>(rank));
  }
  if (candidates_.empty()) candidates_.swap(late_);
}

int RankQueue::pick(int from) {
  switch (policy_) {
    case SchedulePolicy::kRoundRobin: {
      const auto after = std::upper_bound(candidates_.begin(), candidates_.end(), from);
      return after == candidates_.end() ? candidates_.front() : *after;
    }
    case SchedulePolicy::kRandom: return candidates_[random_.below(candidates_.size())];
    case SchedulePolicy::kPriority:
      return *std::max_element(candidates_.begin(), candidates_.end(), [&](int a, int b) {
        return rank_at(a).priority < rank_at(b).priority;
      });
  }
  SHARDFUZZ_CHECK(false, "unknown schedule policy");
}

void RankQueue::apply_change_point(int from) {
  if (policy_ != SchedulePolicy::kPriority) return;
  if (std::find(change_at_.begin(), change_at_.end(), hand_overs_) == change_at_.end()) return;
  rank_at(from).priority = --lowest_priority_;
}

// Every parked rank becomes runnable with the reason to stop; they unwind in rank order.
void RankQueue::stop(Wake reason) {
  wake_ = reason;
  on_stop_(reason, views());
  for (Rank& rank : ranks_) {
    if (rank.state == State::kParked) rank.state = State::kRunnable;
  }
}

std::vector<Scheduler::RankView> RankQueue::views() const {
  std::vector<Scheduler::RankView> views;
  for (const Rank& rank : ranks_) {
    const bool parked = rank.state == State::kParked;
    views.push_back({.state = rank.state, .waits_for = parked ? (*rank.waits_for)() : ""});
  }
  return views;
}

}  // namespace shardfuzz
