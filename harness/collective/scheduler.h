// Scheduler: hands one baton among the threads of simulated ranks.
//
// Thread rule: each rank has its own thread and calls enter/yield/park/leave on it; exactly one
// rank runs between those calls, so everything a rank touches in between needs no lock.
//
// Guarantees: the same Schedule and the same sequence of calls give the same order of ranks, on any
// machine and under any load; a state in which no rank can go on is known at once (never by a
// timeout) and ends every park() with kDeadlock, in rank order, so that each rank unwinds; no more
// than max_hand_overs hand-overs happen in a run, then every park() ends with kStepBound. After a
// stop the ranks run one after the other: yield, poll and park return at once.
// Not remembered: an unpark() of a rank that is not parked. Whoever parks first checks, with the
// baton held, that what it would wait for has not happened yet. Refused: a rank that enters twice
// (checked).
//
// PCT is the priority scheduler of Burckhardt et al., "A Randomized Scheduler with Probabilistic
// Guarantees of Finding Bugs", ASPLOS 2010.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "harness/base/random.h"
#include "harness/case/case.h"

namespace shardfuzz {

// Hand-overs allowed in one run. The largest generated case (8 ranks, 5 steps, 4 groups, HSDP)
// needs under 5,000.
inline constexpr int kMaxHandOvers = 200'000;

enum class Wake {
  kGo,         // what the rank waited for has happened
  kDeadlock,   // no rank can go on
  kStepBound,  // max_hand_overs reached
};

class Scheduler {
 public:
  enum class State { kNotEntered, kRunnable, kRunning, kParked, kDone };
  struct RankView {
    State state = State::kNotEntered;
    std::string waits_for;  // of a parked rank
  };

  // `on_stop` is called once, on some rank's thread with the baton held, before the first rank is
  // woken with kDeadlock or kStepBound.
  Scheduler(int rank_count, const Schedule& schedule,
            std::function<void(Wake, const std::vector<RankView>&)> on_stop,
            int max_hand_overs = kMaxHandOvers);

  void enter(int rank);  // first call on the rank's thread; returns when the rank is chosen
  void yield(int rank);  // a point at which another rank may be chosen
  // A yield of a rank that asks again and again whether it can go on: its priority drops below all
  // others', so that it cannot keep the baton from those it waits for.
  void poll(int rank);
  Wake park(int rank, std::string waits_for);  // returns when unparked, or when nobody can go on
  void unpark(int rank);                       // by the running rank
  void leave(int rank);                        // last call on the rank's thread

  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] int hand_overs() const { return hand_overs_; }

 private:
  struct Rank {
    RankView view;
    Wake wake = Wake::kGo;
    int priority = 0;
    int delay_left = 0;
    std::condition_variable chosen;
  };

  void hand_over(std::unique_lock<std::mutex>& lock, int from);
  int choose(int from);
  [[nodiscard]] std::vector<int> runnable() const;
  void apply_change_point(int from);
  void stop(Wake reason);
  [[nodiscard]] std::vector<RankView> views() const;

  const SchedulePolicy policy_;
  const int max_hand_overs_;
  Random random_;
  std::function<void(Wake, const std::vector<RankView>&)> on_stop_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<int> change_at_;  // hand-over counts at which the running rank's priority drops
  int lowest_priority_ = 0;
  int entered_ = 0;
  int hand_overs_ = 0;
  bool stopped_ = false;
  std::mutex mutex_;
};

}  // namespace shardfuzz
