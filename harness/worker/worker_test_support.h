// What the two worker tests share: clocks, the fake worker's options, a look for what was left
// over.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <chrono>
#include <string>

#include "harness/worker/clock.h"
#include "harness/worker/worker_process.h"

namespace shardfuzz {

using namespace std::chrono_literals;

// Stands still until it is told to move.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] Duration now() const override { return now_; }
  void advance(Duration time) { now_ += time; }

 private:
  Duration now_{};
};

inline WorkerOptions fake_worker(const std::string& start = "") {
  return {.argv = {FAKE_WORKER},
          .env = {"FAKE_WORKER_START=" + start, "FAKE_WORKER_NOTE=a note"},
          .start_timeout = 5s};
}

// Orphans of workers come to this process, so that none can escape the tests' notice.
class WorkerTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); }
  void TearDown() override {
    // An orphan that was killed with its group still has to be reaped by somebody: by us.
    int status = 0;
    pid_t pid = 0;
    for (int i = 0; i < 2000 && (pid = waitpid(-1, &status, WNOHANG)) >= 0; ++i) {
      if (pid == 0) {
        poll(nullptr, 0, 1);
      } else {
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "process " << pid;
        ++orphan_count_;
      }
    }
    EXPECT_EQ(pid, -1) << "a process was left over";
    EXPECT_EQ(orphan_count_, orphan_count_expected_);
  }
  int orphan_count_ = 0;
  int orphan_count_expected_ = 0;
  SteadyClock clock_;
};

inline std::string payload_of(const Outcome& outcome) {
  const auto* answer = std::get_if<Answer>(&outcome);
  return answer != nullptr ? answer->payload : "LOST: " + std::get<Lost>(outcome).text();
}

}  // namespace shardfuzz
