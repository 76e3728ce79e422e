// RankQueue: decides which simulated rank runs next, and when nobody can.
//
// Plain data and no way to run anything: ThreadScheduler and FiberScheduler tell it what a rank
// does and carry out its answer, so that there is one policy and one order for both. Kept cases
// name a Schedule, so a change of any decision here changes what they replay.
//
// Guarantees: those of scheduler.h on order, deadlock, bound and stop; no allocation between the
// constructor and a stop.
// Thread rule: one call at a time (ThreadScheduler holds its lock).
#pragma once

#include <optional>
#include <vector>

#include "harness/base/random.h"
#include "harness/case/case.h"
#include "harness/collective/scheduler.h"

namespace shardfuzz {

class RankQueue {
 public:
  RankQueue(int rank_count, const Schedule& schedule, Scheduler::OnStop on_stop,
            int max_hand_overs);

  // What `rank` does; the answer is the rank that runs from now on, which may be the same.
  // Nobody until the last rank has entered, so that the first choice does not depend on who is
  // quick to start.
  std::optional<int> enter(int rank);
  int yield(int rank);
  int poll(int rank);
  int park(int rank, const Scheduler::WaitsFor& waits_for);  // kept until `rank` runs again
  std::optional<int> leave(int rank);                        // nobody after the last one

  void unpark(int rank);

  [[nodiscard]] bool runs(int rank) const;
  // What a park that ends now returns. A rank that was unparked, but has not run since, is told of
  // a stop as all others are.
  [[nodiscard]] Wake wake() const { return wake_; }
  [[nodiscard]] bool stopped() const { return wake_ != Wake::kGo; }
  [[nodiscard]] int hand_overs() const { return hand_overs_; }

 private:
  struct Rank {
    Scheduler::State state = Scheduler::State::kNotEntered;
    int priority = 0;
    int delay_left = 0;
    const Scheduler::WaitsFor* waits_for = nullptr;  // of a parked rank
  };

  Rank& rank_at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Rank& rank_at(int rank) const {
    return ranks_[static_cast<std::size_t>(rank)];
  }
  Rank& give_up_baton(int rank, Scheduler::State state);
  int hand_over(int from);
  int choose(int from);
  void find_candidates();
  [[nodiscard]] int pick(int from);
  [[nodiscard]] bool anyone_runnable() const;
  void apply_change_point(int from);
  void stop(Wake reason);
  [[nodiscard]] std::vector<Scheduler::RankView> views() const;

  const SchedulePolicy policy_;
  const int max_hand_overs_;
  Random random_;
  Scheduler::OnStop on_stop_;
  std::vector<Rank> ranks_;
  std::vector<int> change_at_;  // hand-over counts at which the running rank's priority drops
  // Of the choice being made, ascending; members, so that a choice allocates nothing.
  std::vector<int> candidates_, late_;
  int lowest_priority_ = 0;
  int entered_ = 0;
  int done_ = 0;
  int hand_overs_ = 0;
  Wake wake_ = Wake::kGo;  // the reason to stop, after a stop
};

}  // namespace shardfuzz
