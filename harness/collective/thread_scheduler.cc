#include "harness/collective/thread_scheduler.h"

#include <utility>

namespace shardfuzz {

ThreadScheduler::ThreadScheduler(int rank_count, const Schedule& schedule, OnStop on_stop,
                                 int max_hand_overs)
    : queue_(rank_count, schedule, std::move(on_stop), max_hand_overs),
      chosen_(static_cast<std::size_t>(rank_count)) {}

void ThreadScheduler::enter(int rank) {
  std::unique_lock lock(mutex_);
  if (const auto first = queue_.enter(rank)) chosen_[static_cast<std::size_t>(*first)].notify_one();
  wait_for_turn(lock, rank);
}

void ThreadScheduler::yield(int rank) {
  std::unique_lock lock(mutex_);
  hand_over(lock, rank, queue_.yield(rank));
}

void ThreadScheduler::poll(int rank) {
  std::unique_lock lock(mutex_);
  hand_over(lock, rank, queue_.poll(rank));
}

Wake ThreadScheduler::park(int rank, const WaitsFor& waits_for) {
  std::unique_lock lock(mutex_);
  hand_over(lock, rank, queue_.park(rank, waits_for));
  return queue_.wake();
}

void ThreadScheduler::unpark(int rank) {
  const std::lock_guard lock(mutex_);
  queue_.unpark(rank);
}

void ThreadScheduler::leave(int rank) {
  const std::lock_guard lock(mutex_);
  if (const auto next = queue_.leave(rank)) chosen_[static_cast<std::size_t>(*next)].notify_one();
}

void ThreadScheduler::hand_over(std::unique_lock<std::mutex>& lock, int from, int next) {
  if (next == from) return;
  chosen_[static_cast<std::size_t>(next)].notify_one();
  wait_for_turn(lock, from);
}

void ThreadScheduler::wait_for_turn(std::unique_lock<std::mutex>& lock, int rank) {
  chosen_[static_cast<std::size_t>(rank)].wait(lock, [&] { return queue_.runs(rank); });
}

}  // namespace shardfuzz
