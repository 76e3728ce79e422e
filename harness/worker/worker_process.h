// WorkerProcess: one child process that answers requests; its every end is a value (outcome.h).
//
// Thread rule: one thread, and the one that made it must live at least as long (the kernel kills
// the child when that thread ends). Guarantees: nothing here blocks but ask() and, for at most
// kReapWait, the destructor; a child that dies, hangs, grows or talks nonsense is killed with its
// whole process group and reaped. A deadline that passed while nobody called service() is extended
// once by the time nobody listened, since the child may have waited for us to read its output.
// Refuses: a second request before the first has ended (checked).
// Use:  WorkerProcess worker({.argv = {path}}, clock);  Outcome end = worker.ask(json, 2s);
// Or, for several at once:  add_poll_fds(), poll(2), service(), as WorkerPool does.
#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/worker/clock.h"
#include "harness/worker/frame.h"
#include "harness/worker/outcome.h"
#include "harness/worker/output_tail.h"
#include "harness/worker/spawn.h"

namespace shardfuzz {

inline constexpr Duration kServiceTick = std::chrono::milliseconds(10);  // between looks at a child
inline constexpr Duration kReapWait = std::chrono::milliseconds(400);    // for SIGKILL to take hold

struct WorkerOptions {
  std::vector<std::string> argv;
  std::vector<std::string> env;  // "NAME=value"
  Duration start_timeout = std::chrono::minutes(2);
  std::int64_t memory_bytes_max = 0;  // resident; looked at each kServiceTick; 0: no limit
  int hang_signal = 0;  // sent to a hanging worker so that it can say where it is; 0: none
  Duration hang_grace = std::chrono::milliseconds(200);  // from that signal to SIGKILL
};

class WorkerProcess {
 public:
  // Starts the program and does not wait for it.
  WorkerProcess(WorkerOptions options, const Clock& clock);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  [[nodiscard]] bool is_starting() const { return state_ == State::kStarting; }
  [[nodiscard]] bool is_idle() const { return state_ == State::kIdle; }
  [[nodiscard]] bool is_busy() const { return state_ == State::kBusy; }
  [[nodiscard]] bool is_gone() const { return state_ == State::kGone; }
  // The payload; nullopt: it has not said it yet.
  [[nodiscard]] const std::optional<std::string>& hello() const { return hello_; }
  [[nodiscard]] pid_t pid() const { return child_.pid; }

  // Only while is_idle(). The payload must not be above kPayloadBytesMax.
  void send(std::string_view payload, Duration timeout);
  // Does what can be done without waiting: call it after poll(2), and each kServiceTick at least.
  // An Answer ends the request; a Lost ends the process, whether or not a request was running.
  [[nodiscard]] std::optional<Outcome> service();
  void add_poll_fds(std::vector<pollfd>* fds) const;
  // Waits until it is ready, sends, waits for the end.
  [[nodiscard]] Outcome ask(std::string_view payload, Duration timeout);

  // Asks it to leave; it is killed after `grace`. service() tells when it is gone.
  void quit(Duration grace);

 private:
  enum class State { kStarting, kIdle, kBusy, kEnding, kGone };

  void send_pending();
  void read_output();
  void read_frames();
  void take_frame(Frame frame);
  void take_answer(std::string payload);
  void check_exit();
  void check_limits();
  void check_ending();
  [[nodiscard]] bool deadline_passed();
  void end(Lost::Reason reason, std::string what);
  void end_hang();
  void kill_group();
  void finish();
  void mark_start_failed(Lost* lost) const;
  [[nodiscard]] bool is_request_unread() const;
  void read_exit_status(Lost* lost) const;
  [[nodiscard]] std::int64_t read_rss_bytes() const;
  void start_span(State state, Duration limit);
  void release_fds();

  WorkerOptions options_;
  const Clock& clock_;
  Child child_;
  int statm_fd_ = -1;
  State state_ = State::kStarting;
  std::string pending_;  // of a request, not sent yet
  FrameDecoder decoder_;
  OutputTail output_;
  std::optional<std::string> hello_;
  std::optional<Outcome> outcome_;
  // Set when the end was decided before the process died; its exit status then says nothing.
  std::optional<Lost::Reason> end_reason_;
  std::string end_what_;
  std::string last_words_, last_place_;
  std::int64_t rss_bytes_max_ = 0;
  Duration span_begin_{}, span_limit_{}, deadline_{}, last_service_{};
  bool is_extended_ = false;  // the deadline of this span
  bool is_killed_ = false;
  bool is_refused_ = false;  // it closed its end before the whole request was in the pipe
};

// poll(2) for at most `time` (of the real clock); ended early by a signal.
void wait_for_any(std::vector<pollfd>* fds, Duration time);

}  // namespace shardfuzz
