// ThreadScheduler: simulated ranks on threads of their own, one of which runs at a time.
//
// Thread rule: each rank has its own thread and calls enter, yield, poll, park and leave on it;
// unpark, stopped and hand_overs are for the rank that holds the baton. on_stop and WaitsFor are
// called on whichever rank's thread finds that the run stops, with the scheduler's lock held.
// Guarantees: those of scheduler.h. How the threads are made and ended is the caller's business.
// A hand-over costs a thread switch, 5 to 20 us.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "harness/collective/rank_queue.h"
#include "harness/collective/scheduler.h"

namespace shardfuzz {

class ThreadScheduler final : public Scheduler {
 public:
  ThreadScheduler(int rank_count, const Schedule& schedule, OnStop on_stop,
                  int max_hand_overs = kMaxHandOvers);

  void enter(int rank);  // first call on the rank's thread; returns when the rank is chosen
  void leave(int rank);  // last call on the rank's thread

  void yield(int rank) override;
  void poll(int rank) override;
  Wake park(int rank, const WaitsFor& waits_for) override;
  void unpark(int rank) override;

  [[nodiscard]] bool stopped() const override { return queue_.stopped(); }
  [[nodiscard]] int hand_overs() const override { return queue_.hand_overs(); }

 private:
  void hand_over(std::unique_lock<std::mutex>& lock, int from, int next);
  void wait_for_turn(std::unique_lock<std::mutex>& lock, int rank);

  std::mutex mutex_;
  RankQueue queue_;
  std::vector<std::condition_variable> chosen_;  // by rank
};

}  // namespace shardfuzz
