// Scheduler: hands one baton among simulated ranks. What ranks and the hub know of it.
//
// Two implementations carry out the same decisions (rank_queue.h): ThreadScheduler, one thread a
// rank, for code that wants a thread of its own (Python); FiberScheduler, all ranks on the caller's
// thread, where a hand-over has to be cheap.
//
// Thread rule: a rank calls yield, poll and park for itself, and all calls come from the rank that
// holds the baton. Exactly one rank runs between them, so everything a rank touches in between
// needs no lock.
//
// Guarantees: the same Schedule and the same sequence of calls give the same order of ranks, on any
// machine, under any load and with either implementation; a state in which no rank can go on is
// known at once (never by a timeout) and ends every park() with kDeadlock, in rank order, so that
// each rank unwinds; no more than max_hand_overs hand-overs happen in a run, then every park() ends
// with kStepBound. After a stop the ranks run one after the other: yield, poll and park return at
// once.
// Not remembered: an unpark() of a rank that is not parked. Whoever parks first checks, with the
// baton held, that what it would wait for has not happened yet. Refused (checked): a rank that
// enters twice, and one that hands over a baton it does not hold.
//
// PCT is the priority scheduler of Burckhardt et al., "A Randomized Scheduler with Probabilistic
// Guarantees of Finding Bugs", ASPLOS 2010.
#pragma once

#include <functional>
#include <string>
#include <vector>

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
  // Called once, by some rank with the baton held, before the first rank is woken with kDeadlock or
  // kStepBound. It makes no call to the scheduler but stopped() and hand_overs().
  using OnStop = std::function<void(Wake, const std::vector<RankView>&)>;
  // Says what a parked rank waits for. Asked only where a run stops, since nearly all waits end
  // well and their text would cost more than the wait; it lives until park() returns, and is asked
  // while the parked rank's frames are as they were.
  using WaitsFor = std::function<std::string()>;

  Scheduler() = default;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  virtual ~Scheduler() = default;

  virtual void yield(int rank) = 0;  // a point at which another rank may be chosen
  // A yield of a rank that asks again and again whether it can go on: its priority drops below all
  // others', so that it cannot keep the baton from those it waits for.
  virtual void poll(int rank) = 0;
  // Returns when unparked, or when nobody can go on.
  virtual Wake park(int rank, const WaitsFor& waits_for) = 0;
  virtual void unpark(int rank) = 0;

  [[nodiscard]] virtual bool stopped() const = 0;
  [[nodiscard]] virtual int hand_overs() const = 0;
};

}  // namespace shardfuzz
