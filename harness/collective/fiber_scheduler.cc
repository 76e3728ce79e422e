#include "harness/collective/fiber_scheduler.h"

#include <exception>
#include <utility>

#include "harness/base/check.h"

namespace shardfuzz {
namespace {

// Apart from run_rank, so that its frame has gone (destructors included) before the fiber ends.
void call_program(const std::function<void(int)>& program, int rank) {
  try {
    program(rank);
  } catch (const std::exception& error) {
    SHARDFUZZ_CHECK(false, "the program of rank {} lets an exception escape: {}", rank,
                    error.what());
  } catch (...) {
    SHARDFUZZ_CHECK(false, "the program of rank {} lets an exception escape", rank);
  }
}

}  // namespace

FiberScheduler::FiberScheduler(FiberStacks* stacks, int rank_count, const Schedule& schedule,
                               OnStop on_stop, int max_hand_overs)
    : stacks_(stacks),
      queue_(rank_count, schedule, std::move(on_stop), max_hand_overs),
      fibers_(static_cast<std::size_t>(rank_count)) {}

void FiberScheduler::run(const std::function<void(int)>& program) {
  program_ = &program;
  int first = -1;
  for (std::size_t rank = 0; rank < fibers_.size(); ++rank) {
    RankFiber& self = fibers_[rank];
    self.scheduler = this;
    self.rank = static_cast<int>(rank);
    self.stack = stacks_->take();
    self.fiber.set_start(self.stack, &run_rank, &self);
    first = queue_.enter(self.rank).value_or(-1);
  }
  caller_.switch_to(fiber_of(first));
  for (const RankFiber& self : fibers_) stacks_->give_back(self.stack);
}

void FiberScheduler::run_rank(void* rank_fiber) {
  RankFiber& self = *static_cast<RankFiber*>(rank_fiber);
  FiberScheduler& scheduler = *self.scheduler;
  call_program(*scheduler.program_, self.rank);
  const auto next = scheduler.queue_.leave(self.rank);
  self.fiber.leave_for(next ? scheduler.fiber_of(*next) : scheduler.caller_);
}

void FiberScheduler::yield(int rank) { hand_over(rank, queue_.yield(rank)); }

void FiberScheduler::poll(int rank) { hand_over(rank, queue_.poll(rank)); }

Wake FiberScheduler::park(int rank, const WaitsFor& waits_for) {
  hand_over(rank, queue_.park(rank, waits_for));
  return queue_.wake();
}

void FiberScheduler::hand_over(int from, int next) {
  if (next != from) fiber_of(from).switch_to(fiber_of(next));
}

}  // namespace shardfuzz
