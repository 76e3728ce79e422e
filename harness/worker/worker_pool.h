// WorkerPool: several worker processes that answer requests, each lost one replaced when needed.
//
// Thread rule: one thread, which must live as long as the pool (see worker_process.h).
// Guarantees: each submitted request comes back exactly once, in order of completion, as an Answer
// or as a Lost; a request that its worker never read is given to another one, and so is, once, one
// whose worker was killed from outside; a dead worker is replaced when there is work for it, or at
// once; shutdown() and the destructor take at most a second and leave no process. Refuses: more
// than kPendingMax requests at once and payloads above kPayloadBytesMax; going on (an Error, for
// good) where a worker cannot start, where workers fail kMaxRestartsInARow times in a row without
// running a single case, or where is_interrupted says so during run_one() or wait_hello(). A case
// that kills its worker does not count there: minimizing a crash kills one for each step. Use:
// WorkerPool pool({.worker = {.argv = {path}}}, clock);
//       pool.submit(7, json);  auto done = pool.poll(1s);  for (auto& [id, outcome] : *done) ...
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/result.h"
#include "harness/worker/clock.h"
#include "harness/worker/outcome.h"
#include "harness/worker/worker_process.h"

namespace shardfuzz {

inline constexpr int kMaxRestartsInARow = 5;
inline constexpr std::size_t kPendingMax = std::size_t{1} << 16;

struct PoolOptions {
  WorkerOptions worker;
  int worker_count = 2;
  Duration request_timeout = std::chrono::minutes(1);
  bool replace_at_once = false;         // a lost worker: its start then overlaps with other work
  int recycle_after = 0;                // answers after which a worker is replaced; 0: never
  std::int64_t rss_bytes_soft_max = 0;  // replaced when it holds more after an answer; 0: never
  int losses_in_a_row_max =
      0;  // requests lost without an answer between, then an Error; 0: no limit
  std::function<bool()> is_interrupted;  // asked each kServiceTick where the pool itself waits
};

struct Completed {
  std::uint64_t id = 0;
  Outcome outcome;
};

class WorkerPool {
 public:
  WorkerPool(PoolOptions options, const Clock& clock);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Ids are the caller's. `timeout`: instead of request_timeout; counts from when a worker has it.
  [[nodiscard]] Status submit(std::uint64_t id, std::string payload,
                              std::optional<Duration> timeout = {});
  // Waits until something is completed, at most `timeout`; at once where nothing is pending.
  [[nodiscard]] Result<std::vector<Completed>> poll(Duration timeout);
  // One request, waited for; only while nothing else is pending (checked).
  [[nodiscard]] Result<Outcome> run_one(std::string payload, std::optional<Duration> timeout = {});

  // Requests that have not come back yet.
  [[nodiscard]] std::size_t pending_count() const;
  // Starts all workers now rather than with the first requests.
  void start_all();
  // Waits for a worker's hello and gives its payload: the versions it runs.
  [[nodiscard]] Result<std::string> wait_hello();
  // Workers that were started so far, and those of them that were recycled.
  [[nodiscard]] int started_count() const { return started_count_; }
  [[nodiscard]] int recycled_count() const { return recycled_count_; }
  // Asks all to leave, kills those that do not. What is pending is dropped. The pool is of no
  // further use.
  void shutdown();

 private:
  struct Job {
    std::uint64_t id = 0;
    std::string payload;
    Duration timeout{};
    bool is_second_try = false;  // its first worker was killed from outside
  };
  struct Slot {
    std::unique_ptr<WorkerProcess> worker;  // null: not started, or lost
    std::optional<Job> job;
    int answer_count = 0;
  };

  void service_all();
  void service_slot(Slot* slot);
  void take_answer(Slot* slot, Answer answer);
  void take_loss(Slot* slot, Lost lost);
  void retire(Slot* slot);
  void service_retiring();
  void dispatch();
  void start_worker(Slot* slot);
  void fail(const Lost& lost, std::string what);
  void fail_start(const Lost& lost);
  // Sets error_ and tells whether it is set.
  bool look_for_interrupt();
  void wait(Duration time_max);

  PoolOptions options_;
  const Clock& clock_;
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<WorkerProcess>> retiring_;
  std::deque<Job> queue_;
  std::vector<Completed> completed_;
  std::vector<pollfd> poll_fds_;
  std::optional<Error> error_;
  std::optional<std::string> hello_;
  int barren_losses_ = 0;  // workers lost in a row without a case to blame
  int losses_in_a_row_ = 0;
  int started_count_ = 0;
  int recycled_count_ = 0;
};

}  // namespace shardfuzz
