// FiberScheduler: simulated ranks as fibers of one thread.
//
// For targets that need thousands of cases a second: a hand-over costs some tens of nanoseconds,
// where ThreadScheduler's costs a thread switch. The order of ranks is the same (rank_queue.h).
//
// Guarantees: those of scheduler.h. run() calls the program once for each rank and returns when all
// have ended. A rank may hand over anywhere, inside a catch block and a destructor too (fiber.h
// says what is kept for each rank and what all ranks share, thread_local variables above all).
// Refused (checked): a program that lets an exception escape; a second run() of one object. A rank
// that needs more stack than kFiberStackBytes ends the process.
// Thread rule: everything on the thread that calls run(), which may lie inside another run().
// Use:  FiberScheduler scheduler(&stacks, 4, schedule, on_stop);  scheduler.run(program);
#pragma once

#include <functional>
#include <vector>

#include "harness/collective/fiber.h"
#include "harness/collective/fiber_stacks.h"
#include "harness/collective/rank_queue.h"
#include "harness/collective/scheduler.h"

namespace shardfuzz {

class FiberScheduler final : public Scheduler {
 public:
  // `stacks` outlives the run and serves any number of them, one after the other or nested.
  FiberScheduler(FiberStacks* stacks, int rank_count, const Schedule& schedule, OnStop on_stop,
                 int max_hand_overs = kMaxHandOvers);

  void run(const std::function<void(int rank)>& program);

  void yield(int rank) override;
  void poll(int rank) override;
  Wake park(int rank, const WaitsFor& waits_for) override;
  void unpark(int rank) override { queue_.unpark(rank); }

  [[nodiscard]] bool stopped() const override { return queue_.stopped(); }
  [[nodiscard]] int hand_overs() const override { return queue_.hand_overs(); }

 private:
  struct RankFiber {
    Fiber fiber;
    FiberScheduler* scheduler = nullptr;
    int rank = -1;
    FiberStack stack;
  };

  static void run_rank(void* rank_fiber);
  void hand_over(int from, int next);
  Fiber& fiber_of(int rank) { return fibers_[static_cast<std::size_t>(rank)].fiber; }

  FiberStacks* stacks_;
  RankQueue queue_;
  std::vector<RankFiber> fibers_;  // by rank
  Fiber caller_;                   // of run()
  const std::function<void(int)>* program_ = nullptr;
};

}  // namespace shardfuzz
