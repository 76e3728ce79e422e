#include "harness/worker/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "harness/base/check.h"
#include "harness/base/exit_code.h"

namespace shardfuzz {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr int kReadsMax =
    64;  // a call to service(): a worker that prints for ever is one of several
constexpr Duration kSilentGrace = std::chrono::seconds(1);       // closed its channel, not yet dead
constexpr Duration kListenGap = std::chrono::milliseconds(250);  // longer: nobody listened
constexpr Duration kDeadWait = std::chrono::seconds(10);         // SIGKILL to a process of many GB
constexpr int kReapRoundMs = 1;
constexpr int kExitCannotStart = to_int(ExitCode::kBadInput);  // a worker that says why by itself

// Reads what is there, at most kReadsMax times; false: the stream has ended.
template <typename Take>
bool read_available(int fd, Take take) {
  std::array<char, kReadBytes> buffer;
  for (int i = 0; i < kReadsMax; ++i) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got > 0) {
      take(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == EAGAIN;
    }
  }
  return true;
}

void close_fd(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

// Has it died? Leaves the zombie: while it is there, nobody else can get its process id.
bool is_dead(pid_t pid) {
  siginfo_t info = {};
  const int rc = waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT);
  return rc != 0 || info.si_pid != 0;
}

}  // namespace

void wait_for_any(std::vector<pollfd>* fds, Duration time) {
  using std::chrono::milliseconds;
  // Rounded up: a wait of 0 ms until a deadline in the same millisecond would spin.
  const auto ms = std::chrono::ceil<milliseconds>(std::max(time, Duration::zero())).count();
  poll(fds->data(), fds->size(), static_cast<int>(ms));
}

WorkerProcess::WorkerProcess(WorkerOptions options, const Clock& clock)
    : options_(std::move(options)), clock_(clock) {
  start_span(State::kStarting, options_.start_timeout);
  auto child = spawn({.argv = options_.argv, .env = options_.env});
  if (!child) {
    end_reason_ = Lost::Reason::kStartFailed;
    end_what_ = child.error().text();
    finish();
    return;
  }
  child_ = *child;
  const std::string statm = fmt::format("/proc/{}/statm", child_.pid);
  statm_fd_ = open(statm.c_str(), O_RDONLY | O_CLOEXEC);
}

WorkerProcess::~WorkerProcess() {
  if (state_ != State::kGone) {
    kill_group();
    for (int i = 0; i * kReapRoundMs < kReapWait / std::chrono::milliseconds(1); ++i) {
      if (is_dead(child_.pid)) break;
      poll(nullptr, 0, kReapRoundMs);
    }
    waitpid(child_.pid, nullptr, WNOHANG);
  }
  release_fds();
}

void WorkerProcess::release_fds() {
  close_fd(&child_.request_fd);
  close_fd(&child_.answer_fd);
  close_fd(&child_.output_fd);
  close_fd(&statm_fd_);
}

void WorkerProcess::start_span(State state, Duration limit) {
  state_ = state;
  span_begin_ = last_service_ = clock_.now();
  span_limit_ = limit;
  deadline_ = span_begin_ + limit;
  is_extended_ = false;
}

void WorkerProcess::send(std::string_view payload, Duration timeout) {
  SHARDFUZZ_CHECK(is_idle(), "a request to a worker that is not idle");
  pending_ = encode_frame(FrameKind::kRequest, payload);
  last_words_.clear();
  last_place_.clear();
  start_span(State::kBusy, timeout);
  send_pending();
}

std::optional<Outcome> WorkerProcess::service() {
  if (state_ != State::kGone) {
    send_pending();
    read_output();
    read_frames();
    if (!outcome_) check_exit();
    if (!outcome_) check_limits();
    last_service_ = clock_.now();
  }
  return std::exchange(outcome_, std::nullopt);
}

void WorkerProcess::add_poll_fds(std::vector<pollfd>* fds) const {
  if (child_.answer_fd >= 0) fds->push_back({child_.answer_fd, POLLIN, 0});
  if (child_.output_fd >= 0) fds->push_back({child_.output_fd, POLLIN, 0});
  if (child_.request_fd >= 0 && !pending_.empty()) {
    fds->push_back({child_.request_fd, POLLOUT, 0});
  }
}

Outcome WorkerProcess::ask(std::string_view payload, Duration timeout) {
  bool is_sent = false;
  std::vector<pollfd> fds;
  for (;;) {
    if (auto outcome = service()) return *std::move(outcome);
    SHARDFUZZ_CHECK(state_ != State::kGone, "a request to a worker that is gone");
    if (!is_sent && is_idle()) {
      send(payload, timeout);
      is_sent = true;
    }
    fds.clear();
    add_poll_fds(&fds);
    wait_for_any(&fds, kServiceTick);
  }
}

void WorkerProcess::quit(Duration grace) {
  if (state_ == State::kGone) return;
  pending_ += encode_frame(FrameKind::kQuit, "");
  send_pending();
  if (!end_reason_) {
    end_reason_ = Lost::Reason::kExit;
    end_what_ = "was asked to leave";
    start_span(State::kEnding, grace);
  }
}

void WorkerProcess::send_pending() {
  while (!pending_.empty() && child_.request_fd >= 0) {
    const ssize_t put =
        ::send(child_.request_fd, pending_.data(), pending_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put > 0) {
      pending_.erase(0, static_cast<std::size_t>(put));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR) {
      is_refused_ = true;
      pending_.clear();  // nobody reads any more: its death, or the deadline, will tell
    }
  }
}

void WorkerProcess::read_output() {
  if (child_.output_fd < 0) return;
  const bool is_open =
      read_available(child_.output_fd, [&](const char* data, std::size_t byte_count) {
        output_.append({data, byte_count});
      });
  if (!is_open) close_fd(&child_.output_fd);
}

void WorkerProcess::read_frames() {
  if (child_.answer_fd >= 0) {
    const bool is_open = read_available(
        child_.answer_fd,
        [&](const char* data, std::size_t byte_count) { decoder_.feed(data, byte_count); });
    if (!is_open) close_fd(&child_.answer_fd);
  }
  Frame frame;
  while (!outcome_) {
    const auto next = decoder_.next(&frame);
    if (next == FrameDecoder::Next::kNeedMore) return;
    if (next == FrameDecoder::Next::kBroken) {
      // Also while it is ending, where the reason is known and the words after this are lost.
      if (!end_reason_) end(Lost::Reason::kProtocol, "wrote " + decoder_.error());
      return;
    }
    take_frame(std::move(frame));
  }
}

void WorkerProcess::take_frame(Frame frame) {
  switch (frame.kind) {
    case FrameKind::kProgress: last_place_ = printable(frame.payload); return;
    case FrameKind::kLastWords: last_words_ = printable(frame.payload); return;
    case FrameKind::kHello:
      if (state_ == State::kStarting) {
        hello_ = std::move(frame.payload);
        last_place_.clear();
        start_span(State::kIdle, Duration::zero());
        return;
      }
      break;
    case FrameKind::kAnswer:
      if (state_ == State::kBusy) {
        take_answer(std::move(frame.payload));
        return;
      }
      break;
    case FrameKind::kRequest:
    case FrameKind::kQuit: break;
  }
  // Late frames of a worker that is ending anyway are no news.
  if (!end_reason_) {
    end(Lost::Reason::kProtocol,
        fmt::format("wrote a frame '{}' out of turn", static_cast<char>(frame.kind)));
  }
}

void WorkerProcess::take_answer(std::string payload) {
  const auto seconds = to_seconds(clock_.now() - span_begin_);
  const auto rss_bytes = read_rss_bytes();
  rss_bytes_max_ = std::max(rss_bytes_max_, rss_bytes);
  start_span(State::kIdle, Duration::zero());
  outcome_ = Answer{.payload = std::move(payload), .seconds = seconds, .rss_bytes = rss_bytes};
}

void WorkerProcess::check_exit() {
  if (!is_dead(child_.pid)) return;
  kill_group();  // what it left behind: it may hold the pipes open and the GPU busy
  read_output();
  read_frames();
  if (outcome_) return;  // its last act was to answer; its death is told by the next call
  finish();
}

void WorkerProcess::check_limits() {
  if (state_ == State::kGone) return;
  if (state_ == State::kEnding) return check_ending();
  const auto rss_bytes = read_rss_bytes();
  rss_bytes_max_ = std::max(rss_bytes_max_, rss_bytes);
  if (options_.memory_bytes_max > 0 && rss_bytes > options_.memory_bytes_max) {
    return end(Lost::Reason::kMemory,
               fmt::format("held {} MiB, above the limit of {} MiB", rss_bytes >> 20,
                           options_.memory_bytes_max >> 20));
  }
  if (child_.answer_fd < 0) {
    // Most often it is dying right now, and its exit status will be the better reason.
    state_ = State::kEnding;
    deadline_ = clock_.now() + kSilentGrace;
    return;
  }
  if (state_ == State::kIdle || !deadline_passed()) return;
  if (state_ == State::kBusy) return end_hang();
  end(Lost::Reason::kStartFailed, fmt::format("no hello within {} s", to_seconds(span_limit_)));
}

void WorkerProcess::check_ending() {
  if (clock_.now() < deadline_) return;
  if (is_killed_) return finish();  // it sits in the kernel: a zombie is left, the pool goes on
  if (!end_reason_) {
    end(Lost::Reason::kProtocol, "closed its answer channel and lived on");
    return;
  }
  kill_group();
  deadline_ = clock_.now() + kDeadWait;
}

bool WorkerProcess::deadline_passed() {
  const auto now = clock_.now();
  if (now < deadline_) return false;
  const auto gap = now - last_service_;
  if (gap <= kListenGap || is_extended_) return true;
  is_extended_ = true;
  deadline_ = now + std::min(gap, span_limit_);
  return false;
}

void WorkerProcess::end(Lost::Reason reason, std::string what) {
  end_reason_ = reason;
  end_what_ = std::move(what);
  kill_group();
  state_ = State::kEnding;
  deadline_ = clock_.now() + kDeadWait;
}

void WorkerProcess::end_hang() {
  const auto what = fmt::format("no answer within {} s", to_seconds(span_limit_));
  if (options_.hang_signal == 0) return end(Lost::Reason::kHang, what);
  end_reason_ = Lost::Reason::kHang;
  end_what_ = what;
  kill(child_.pid, options_.hang_signal);
  state_ = State::kEnding;
  deadline_ = clock_.now() + options_.hang_grace;
}

void WorkerProcess::kill_group() {
  // The leader is not reaped yet, so neither number can belong to anyone else.
  SHARDFUZZ_CHECK(child_.pid > 1, "a process group to kill: {}", child_.pid);
  kill(-child_.pid, SIGKILL);
  kill(child_.pid, SIGKILL);  // should it have left its group
  is_killed_ = true;
}

void WorkerProcess::finish() {
  Lost lost;
  read_exit_status(&lost);
  if (end_reason_) {
    lost.reason = *end_reason_;
    lost.what = end_what_;
    if (lost.reason != Lost::Reason::kStartFailed) lost.signal_or_code = 0;  // it was our signal
  }
  if (!hello_) mark_start_failed(&lost);
  lost.request_unread = is_request_unread();
  lost.last_words = last_words_;
  lost.last_place = last_place_;
  lost.output_tail = output_.lines(kOutputTailLines);
  lost.seconds = to_seconds(clock_.now() - span_begin_);
  lost.rss_bytes_max = rss_bytes_max_;
  outcome_ = std::move(lost);
  release_fds();
  state_ = State::kGone;
}

// Without a hello. Another try would be in vain where nothing could be executed, where the worker
// left with a message of its own, and where it takes more memory than it may before any case.
void WorkerProcess::mark_start_failed(Lost* lost) const {
  const bool left_by_itself =
      lost->reason == Lost::Reason::kExit && lost->signal_or_code == kExitCannotStart;
  lost->cannot_start = child_.pid < 0 || left_by_itself || lost->reason == Lost::Reason::kMemory;
  if (lost->reason == Lost::Reason::kStartFailed) return;
  lost->reason = Lost::Reason::kStartFailed;
  lost->what += " before its hello";
}

bool WorkerProcess::is_request_unread() const {
  if (is_refused_ || !pending_.empty()) return true;
  int socket_error = 0;
  socklen_t size = sizeof socket_error;
  // Linux says ECONNRESET where the other end was closed with data in it that nobody has read.
  return child_.request_fd >= 0 &&
         getsockopt(child_.request_fd, SOL_SOCKET, SO_ERROR, &socket_error, &size) == 0 &&
         socket_error == ECONNRESET;
}

// Reaps it and says how it ended, as if nobody had had a hand in it.
void WorkerProcess::read_exit_status(Lost* lost) const {
  int status = 0;
  if (child_.pid < 0 || waitpid(child_.pid, &status, WNOHANG) != child_.pid) {
    lost->signal_or_code = -1;
    lost->what = "ended without a known exit status";
  } else if (WIFSIGNALED(status)) {
    lost->reason = Lost::Reason::kSignal;
    lost->signal_or_code = WTERMSIG(status);
    lost->what = "killed by " + signal_name(lost->signal_or_code);
    if (lost->signal_or_code == SIGKILL && !end_reason_) {
      lost->what += " from outside (the kernel, out of memory?)";
    }
  } else {
    lost->reason = Lost::Reason::kExit;
    lost->signal_or_code = WEXITSTATUS(status);
    lost->what = fmt::format("left with exit code {}", lost->signal_or_code);
  }
}

std::int64_t WorkerProcess::read_rss_bytes() const {
  char text[128];
  const ssize_t got = statm_fd_ < 0 ? -1 : pread(statm_fd_, text, sizeof text - 1, 0);
  if (got <= 0) return 0;
  text[got] = '\0';
  long long total_pages = 0, resident_pages = 0;
  if (std::sscanf(text, "%lld %lld", &total_pages, &resident_pages) != 2) return 0;
  static const std::int64_t kPageBytes = sysconf(_SC_PAGESIZE);
  return resident_pages * kPageBytes;
}

}  // namespace shardfuzz
