#include "harness/collective/scheduler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "harness/base/check.h"

namespace shardfuzz {
namespace {

// Change points fall uniformly in this many first hand-overs: about the length of a small case.
constexpr int kChangePointRange = 64;

}  // namespace

Scheduler::Scheduler(int rank_count, const Schedule& schedule,
                     std::function<void(Wake, const std::vector<RankView>&)> on_stop,
                     int max_hand_overs)
    : policy_(schedule.policy),
      max_hand_overs_(max_hand_overs),
      random_(schedule.seed),
      on_stop_(std::move(on_stop)) {
  SHARDFUZZ_CHECK(rank_count > 0, "a world needs a rank");
  std::vector<int> order(static_cast<std::size_t>(rank_count));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) {  // Fisher-Yates
    std::swap(order[i - 1], order[random_.below(i)]);
  }
  for (int rank = 0; rank < rank_count; ++rank) {
    auto state = std::make_unique<Rank>();
    state->priority = order[static_cast<std::size_t>(rank)];
    if (static_cast<std::size_t>(rank) < schedule.delays.size()) {
      state->delay_left = schedule.delays[static_cast<std::size_t>(rank)];
    }
    ranks_.push_back(std::move(state));
  }
  for (int i = 0; i < schedule.change_points; ++i) {
    change_at_.push_back(1 + static_cast<int>(random_.below(kChangePointRange)));  // counts from 1
  }
}

void Scheduler::enter(int rank) {
  std::unique_lock lock(mutex_);
  Rank& self = *ranks_.at(static_cast<std::size_t>(rank));
  SHARDFUZZ_CHECK(self.view.state == State::kNotEntered, "rank {} entered twice", rank);
  self.view.state = State::kRunnable;
  // The first choice is made when all are here, so that it does not depend on thread start-up.
  if (++entered_ == static_cast<int>(ranks_.size())) {
    ranks_[static_cast<std::size_t>(choose(-1))]->view.state = State::kRunning;
    for (auto& other : ranks_) other->chosen.notify_one();
  }
  self.chosen.wait(lock, [&] { return self.view.state == State::kRunning; });
}

void Scheduler::yield(int rank) {
  std::unique_lock lock(mutex_);
  if (stopped_) return;  // ranks unwind one after the other
  ranks_[static_cast<std::size_t>(rank)]->view.state = State::kRunnable;
  hand_over(lock, rank);
}

void Scheduler::poll(int rank) {
  {
    const std::lock_guard lock(mutex_);
    ranks_[static_cast<std::size_t>(rank)]->priority = --lowest_priority_;
  }
  yield(rank);
}

Wake Scheduler::park(int rank, std::string waits_for) {
  std::unique_lock lock(mutex_);
  Rank& self = *ranks_[static_cast<std::size_t>(rank)];
  if (stopped_) return self.wake;
  self.view.state = State::kParked;
  self.view.waits_for = std::move(waits_for);
  self.wake = Wake::kGo;
  hand_over(lock, rank);
  return self.wake;
}

void Scheduler::unpark(int rank) {
  const std::lock_guard lock(mutex_);
  Rank& other = *ranks_[static_cast<std::size_t>(rank)];
  if (other.view.state != State::kParked) return;
  other.view.state = State::kRunnable;
  other.view.waits_for.clear();
}

void Scheduler::leave(int rank) {
  std::unique_lock lock(mutex_);
  ranks_[static_cast<std::size_t>(rank)]->view.state = State::kDone;
  const bool all_done = std::all_of(ranks_.begin(), ranks_.end(),
                                    [](const auto& r) { return r->view.state == State::kDone; });
  if (!all_done) hand_over(lock, rank);
}

// Chooses the next rank and, where it is another one, waits until `from` is chosen again.
void Scheduler::hand_over(std::unique_lock<std::mutex>& lock, int from) {
  Rank& self = *ranks_[static_cast<std::size_t>(from)];
  if (++hand_overs_ > max_hand_overs_ && !stopped_) stop(Wake::kStepBound);
  apply_change_point(from);
  if (runnable().empty()) stop(Wake::kDeadlock);
  Rank& next = *ranks_[static_cast<std::size_t>(choose(from))];
  next.view.state = State::kRunning;
  if (&next == &self) return;
  next.chosen.notify_one();
  if (self.view.state == State::kDone) return;
  self.chosen.wait(lock, [&] { return self.view.state == State::kRunning; });
}

std::vector<int> Scheduler::runnable() const {
  std::vector<int> found;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank]->view.state == State::kRunnable) found.push_back(static_cast<int>(rank));
  }
  return found;
}

int Scheduler::choose(int from) {
  std::vector<int> candidates = runnable();
  SHARDFUZZ_CHECK(!candidates.empty(), "no rank to choose after rank {}", from);
  if (stopped_) return candidates.front();
  std::vector<int> on_time;
  for (const int rank : candidates) {
    int& delay = ranks_[static_cast<std::size_t>(rank)]->delay_left;
    if (delay > 0) {
      --delay;
    } else {
      on_time.push_back(rank);
    }
  }
  if (!on_time.empty()) candidates = std::move(on_time);
  switch (policy_) {
    case SchedulePolicy::kRoundRobin: {
      const auto after = std::upper_bound(candidates.begin(), candidates.end(), from);
      return after == candidates.end() ? candidates.front() : *after;
    }
    case SchedulePolicy::kRandom:
      return candidates[random_.below(candidates.size())];
    case SchedulePolicy::kPriority:
      return *std::max_element(candidates.begin(), candidates.end(), [&](int a, int b) {
        return ranks_[static_cast<std::size_t>(a)]->priority <
               ranks_[static_cast<std::size_t>(b)]->priority;
      });
  }
  SHARDFUZZ_CHECK(false, "unknown schedule policy");
}

void Scheduler::apply_change_point(int from) {
  if (policy_ != SchedulePolicy::kPriority) return;
  if (std::find(change_at_.begin(), change_at_.end(), hand_overs_) == change_at_.end()) return;
  ranks_[static_cast<std::size_t>(from)]->priority = --lowest_priority_;
}

// Every parked rank becomes runnable with the reason to stop; they unwind in rank order.
void Scheduler::stop(Wake reason) {
  stopped_ = true;
  on_stop_(reason, views());
  for (auto& rank : ranks_) {
    rank->wake = reason;
    if (rank->view.state == State::kParked) rank->view.state = State::kRunnable;
  }
}

std::vector<Scheduler::RankView> Scheduler::views() const {
  std::vector<RankView> copies;
  for (const auto& rank : ranks_) copies.push_back(rank->view);
  return copies;
}

}  // namespace shardfuzz
