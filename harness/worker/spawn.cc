#include "harness/worker/spawn.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "harness/worker/frame.h"

namespace shardfuzz {
namespace {

constexpr int kFreeFdMin = 10;             // above every number that dup2 will claim in the child
constexpr int kExitNotStarted = 127;       // as a shell says it
constexpr int kOutputPipeBytes = 1 << 20;  // a noisy worker must not wait for a busy engine

struct Pair {
  int ours = -1;
  int theirs = -1;
};

// Everything the child needs, prepared before fork: after it, allocating may deadlock.
struct ChildPlan {
  char* const* argv = nullptr;
  char* const* envp = nullptr;
  pid_t parent = 0;
  int input_fd = -1, request_fd = -1, answer_fd = -1, output_fd = -1, error_fd = -1;
};

// Descriptors that are closed unless they are released.
class FdBag {
 public:
  ~FdBag() {
    for (const int fd : fds_) close(fd);
  }
  int keep(int fd) {
    fds_.push_back(fd);
    return fd;
  }
  void release(int fd) { std::erase(fds_, fd); }

 private:
  std::vector<int> fds_;
};

// Moves a descriptor out of the way of 0..4, close-on-exec. -1: none left.
int move_up(int fd) {
  if (fd < 0 || fd >= kFreeFdMin) return fd;
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, kFreeFdMin);
  close(fd);
  return moved;
}

bool keep_pair(int reader, int writer, FdBag* bag, Pair* pair) {
  pair->ours = bag->keep(move_up(reader));
  pair->theirs = bag->keep(move_up(writer));
  return pair->ours >= 0 && pair->theirs >= 0;
}

bool make_pipe(FdBag* bag, Pair* pair) {
  int ends[2];
  return pipe2(ends, O_CLOEXEC) == 0 && keep_pair(ends[0], ends[1], bag, pair);
}

bool make_socket(FdBag* bag, Pair* pair) {
  int ends[2];
  return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0 &&
         keep_pair(ends[0], ends[1], bag, pair);
}

bool set_nonblocking(int fd) { return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0; }

std::vector<char*> pointers_to(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (auto& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> merged_environment(const std::vector<std::string>& additions) {
  const auto name_of_entry = [](std::string_view entry) {
    return entry.substr(0, entry.find('='));
  };
  std::vector<std::string> merged = additions;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const bool is_replaced = std::any_of(
        additions.begin(), additions.end(),
        [&](const std::string& added) { return name_of_entry(added) == name_of_entry(*entry); });
    if (!is_replaced) merged.emplace_back(*entry);
  }
  return merged;
}

void reset_signals() {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) sigaction(number, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Both are wishes: a kernel that says no does not stop the worker.
void lower_claims() {
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t put = write(fd, "1000", 4);
  close(fd);
}

// Runs in the child, between fork and exec: async-signal-safe calls only.
[[noreturn]] void become_worker(const ChildPlan& plan) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.parent) _exit(kExitNotStarted);  // it died before prctl took hold
  reset_signals();
  lower_claims();
  const bool placed =
      dup2(plan.input_fd, STDIN_FILENO) >= 0 && dup2(plan.output_fd, STDOUT_FILENO) >= 0 &&
      dup2(plan.output_fd, STDERR_FILENO) >= 0 && dup2(plan.request_fd, kRequestFd) >= 0 &&
      dup2(plan.answer_fd, kAnswerFd) >= 0;
  if (placed) {
    close_range(kAnswerFd + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    execve(plan.argv[0], plan.argv, plan.envp);
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t put = write(plan.error_fd, &error, sizeof error);
  _exit(kExitNotStarted);
}

// With every signal blocked, so that no handler of the engine runs in the child.
pid_t fork_worker(const ChildPlan& plan) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) become_worker(plan);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return pid;
}

// The errno that the child's exec failed with; 0: the pipe closed by itself, so exec succeeded.
int read_exec_error(int fd) {
  int error = 0;
  ssize_t got;
  do {
    got = read(fd, &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof error) ? error : 0;
}

Error spawn_error(const std::string& what, int error, const SpawnPlan& plan) {
  return Error{.what = fmt::format("{}: {}", what, std::strerror(error)),
               .where = plan.argv.empty() ? "worker" : plan.argv[0],
               .what_to_do = "check that the worker program is built and can be executed"};
}

}  // namespace

Result<Child> spawn(const SpawnPlan& plan) {
  if (plan.argv.empty()) return spawn_error("no worker program is named", EINVAL, plan);
  FdBag bag;
  Pair request, answer, output, error;
  const int input_fd = bag.keep(move_up(open("/dev/null", O_RDONLY | O_CLOEXEC)));
  const bool made = input_fd >= 0 && make_socket(&bag, &request) && make_pipe(&bag, &answer) &&
                    make_pipe(&bag, &output) && make_pipe(&bag, &error);
  if (!made || !set_nonblocking(request.ours) || !set_nonblocking(answer.ours) ||
      !set_nonblocking(output.ours)) {
    return spawn_error("cannot make the worker's pipes", errno, plan);
  }
  fcntl(output.ours, F_SETPIPE_SZ, kOutputPipeBytes);  // a wish

  auto argv_texts = plan.argv;
  auto env_texts = merged_environment(plan.env);
  const auto argv = pointers_to(&argv_texts);
  const auto envp = pointers_to(&env_texts);
  const pid_t pid = fork_worker({.argv = argv.data(),
                                 .envp = envp.data(),
                                 .parent = getpid(),
                                 .input_fd = input_fd,
                                 .request_fd = request.theirs,
                                 .answer_fd = answer.theirs,
                                 .output_fd = output.theirs,
                                 .error_fd = error.theirs});
  if (pid < 0) return spawn_error("cannot fork", errno, plan);
  close(error.theirs);
  bag.release(error.theirs);
  if (const int exec_error = read_exec_error(error.ours); exec_error != 0) {
    waitpid(pid, nullptr, 0);
    return spawn_error("cannot execute the worker program", exec_error, plan);
  }
  for (const int fd : {request.ours, answer.ours, output.ours}) bag.release(fd);
  return Child{
      .pid = pid, .request_fd = request.ours, .answer_fd = answer.ours, .output_fd = output.ours};
}

}  // namespace shardfuzz
