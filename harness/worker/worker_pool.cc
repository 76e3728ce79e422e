#include "harness/worker/worker_pool.h"

#include <algorithm>
#include <utility>

#include "harness/base/check.h"
#include "harness/base/exit_code.h"

namespace shardfuzz {
namespace {

constexpr Duration kQuitGrace = std::chrono::milliseconds(500);
constexpr int kShutdownRounds = 60;  // of a tick at most: ends where the clock stands still, too

}  // namespace

WorkerPool::WorkerPool(PoolOptions options, const Clock& clock)
    : options_(std::move(options)), clock_(clock) {
  SHARDFUZZ_CHECK(options_.worker_count > 0, "a pool of {} workers", options_.worker_count);
  slots_.resize(static_cast<std::size_t>(options_.worker_count));
}

WorkerPool::~WorkerPool() { shutdown(); }

std::size_t WorkerPool::pending_count() const {
  const auto running = std::count_if(slots_.begin(), slots_.end(),
                                     [](const Slot& slot) { return slot.job.has_value(); });
  return queue_.size() + static_cast<std::size_t>(running) + completed_.size();
}

Status WorkerPool::submit(std::uint64_t id, std::string payload, std::optional<Duration> timeout) {
  if (error_) return *error_;
  if (payload.size() > kPayloadBytesMax) {
    return Error{.what = fmt::format("a request of {} bytes, above the limit of {}", payload.size(),
                                     kPayloadBytesMax),
                 .where = fmt::format("request {}", id),
                 .what_to_do = "make the case smaller"};
  }
  if (pending_count() >= kPendingMax) {
    return Error{.what = fmt::format("{} requests are pending already", pending_count()),
                 .where = fmt::format("request {}", id),
                 .what_to_do = "poll before submitting more"};
  }
  queue_.push_back({id, std::move(payload), timeout.value_or(options_.request_timeout)});
  dispatch();
  return Done{};
}

Result<std::vector<Completed>> WorkerPool::poll(Duration timeout) {
  const auto deadline = clock_.now() + timeout;
  for (;;) {
    service_all();
    if (!completed_.empty()) return std::exchange(completed_, {});
    if (error_) return *error_;
    const auto left = deadline - clock_.now();
    if (pending_count() == 0 || left <= Duration::zero()) return std::vector<Completed>{};
    wait(left);
  }
}

Result<Outcome> WorkerPool::run_one(std::string payload, std::optional<Duration> timeout) {
  if (error_) return *error_;
  SHARDFUZZ_CHECK(pending_count() == 0, "run_one() while {} requests are pending", pending_count());
  if (auto status = submit(0, std::move(payload), timeout); !status) return status.error();
  for (;;) {  // ends: a request has a deadline, and so has a start, whose repeats are limited
    auto done = poll(kServiceTick);
    if (!done) return done.error();
    auto completed = *std::move(done);
    if (!completed.empty()) return std::move(completed.front().outcome);
    if (look_for_interrupt()) return *error_;
  }
}

void WorkerPool::start_all() {
  for (auto& slot : slots_) {
    if (slot.worker == nullptr) start_worker(&slot);
  }
}

Result<std::string> WorkerPool::wait_hello() {
  for (;;) {
    service_all();
    if (hello_) return *hello_;
    if (error_ || look_for_interrupt()) return *error_;
    if (slots_[0].worker == nullptr) start_worker(&slots_[0]);
    wait(kServiceTick);
  }
}

void WorkerPool::shutdown() {
  queue_.clear();
  completed_.clear();
  for (auto& slot : slots_) {
    slot.job.reset();
    if (slot.worker != nullptr && slot.worker->is_idle()) {
      retire(&slot);
    } else {
      slot.worker.reset();  // it would not read the request to leave: killed at once
    }
  }
  for (int i = 0; i < kShutdownRounds && !retiring_.empty(); ++i) {
    service_retiring();
    if (!retiring_.empty()) wait(kServiceTick);
  }
  retiring_.clear();  // the destructor of a process kills and reaps it
  if (!error_) error_ = Error{.what = "the worker pool was shut down", .where = "worker pool"};
}

void WorkerPool::service_all() {
  for (auto& slot : slots_) {
    if (slot.worker != nullptr) service_slot(&slot);
  }
  service_retiring();
  dispatch();
}

void WorkerPool::service_slot(Slot* slot) {
  auto outcome = slot->worker->service();
  if (!hello_) hello_ = slot->worker->hello();
  if (!outcome) return;
  if (auto* answer = std::get_if<Answer>(&*outcome)) return take_answer(slot, std::move(*answer));
  take_loss(slot, std::move(std::get<Lost>(*outcome)));
}

void WorkerPool::take_answer(Slot* slot, Answer answer) {
  SHARDFUZZ_CHECK(slot->job.has_value(), "an answer to no request");
  barren_losses_ = losses_in_a_row_ = 0;
  const bool is_heavy =
      options_.rss_bytes_soft_max > 0 && answer.rss_bytes > options_.rss_bytes_soft_max;
  completed_.push_back({slot->job->id, std::move(answer)});
  slot->job.reset();
  ++slot->answer_count;
  if (is_heavy || slot->answer_count == options_.recycle_after) {
    ++recycled_count_;
    retire(slot);
  }
}

void WorkerPool::take_loss(Slot* slot, Lost lost) {
  slot->worker.reset();
  slot->answer_count = 0;
  if (lost.cannot_start) return fail_start(lost);
  const bool is_case_to_blame = slot->job.has_value() && !lost.request_unread;
  if (is_case_to_blame && is_killed_from_outside(lost) && !slot->job->is_second_try) {
    slot->job->is_second_try = true;
    queue_.push_front(*std::exchange(slot->job, std::nullopt));
    return;
  }
  if (is_case_to_blame) {
    barren_losses_ = 0;
    ++losses_in_a_row_;
    if (options_.losses_in_a_row_max > 0 && losses_in_a_row_ >= options_.losses_in_a_row_max) {
      fail(lost, fmt::format("{} requests in a row lost their worker", losses_in_a_row_));
    }
    completed_.push_back({slot->job->id, std::move(lost)});
    slot->job.reset();
    if (options_.replace_at_once && !error_) start_worker(slot);
    return;
  }
  if (slot->job.has_value()) queue_.push_front(*std::exchange(slot->job, std::nullopt));
  if (++barren_losses_ >= kMaxRestartsInARow) {
    fail(lost, fmt::format("workers end by themselves, {} in a row", barren_losses_));
  }
}

void WorkerPool::fail(const Lost& lost, std::string what) {
  if (error_) return;  // the first is the one to tell
  const auto& argv = options_.worker.argv;
  const std::string program = argv.empty() ? "worker" : argv[0];
  what += "; the last one: " + lost.text();
  if (!lost.output_tail.empty()) what += "; its last output:\n" + lost.output_tail;
  error_ = Error{.what = std::move(what),
                 .where = program,
                 .what_to_do = fmt::format(
                     "run '{} 3</dev/null 4>/dev/null' by hand to see it start", program)};
}

void WorkerPool::fail_start(const Lost& lost) {
  if (error_) return;
  const std::string program = options_.worker.argv.empty() ? "worker" : options_.worker.argv[0];
  if (lost.signal_or_code == to_int(ExitCode::kBadInput) && !lost.output_tail.empty()) {
    error_ = Error{.what = lost.output_tail};  // where and what to do are in its own words
  } else if (lost.signal_or_code < 0) {
    error_ = Error{.what = lost.what,
                   .where = program,
                   .what_to_do = "run tools/setup, which builds it, and see shardfuzz doctor"};
  } else {
    error_ = Error{.what = lost.what, .where = program, .what_to_do = "raise --memory"};
  }
}

bool WorkerPool::look_for_interrupt() {
  if (!error_ && options_.is_interrupted && options_.is_interrupted()) {
    error_ = Error{.what = "interrupted"};
  }
  return error_.has_value();
}

void WorkerPool::retire(Slot* slot) {
  slot->worker->quit(kQuitGrace);
  retiring_.push_back(std::move(slot->worker));
  slot->answer_count = 0;
}

void WorkerPool::service_retiring() {
  for (auto& worker : retiring_) (void)worker->service();
  std::erase_if(retiring_, [](const auto& worker) { return worker->is_gone(); });
}

void WorkerPool::dispatch() {
  if (error_) return;
  std::size_t starting = 0;
  for (auto& slot : slots_) {
    if (slot.worker == nullptr) continue;
    if (slot.worker->is_starting()) ++starting;
    if (!slot.worker->is_idle() || queue_.empty()) continue;
    slot.job = std::move(queue_.front());
    queue_.pop_front();
    slot.worker->send(slot.job->payload, slot.job->timeout);
  }
  for (auto& slot : slots_) {
    if (slot.worker != nullptr || queue_.size() <= starting) continue;
    start_worker(&slot);
    ++starting;
  }
}

void WorkerPool::start_worker(Slot* slot) {
  slot->worker = std::make_unique<WorkerProcess>(options_.worker, clock_);
  slot->answer_count = 0;
  ++started_count_;
}

void WorkerPool::wait(Duration time_max) {
  poll_fds_.clear();
  for (const auto& slot : slots_) {
    if (slot.worker != nullptr) slot.worker->add_poll_fds(&poll_fds_);
  }
  for (const auto& worker : retiring_) worker->add_poll_fds(&poll_fds_);
  wait_for_any(&poll_fds_, std::min(time_max, kServiceTick));
}

}  // namespace shardfuzz
