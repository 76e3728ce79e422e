// A worker program for tests: does what the text of a request says, well or badly.
//
// FAKE_WORKER_START in its environment says how it starts: "" (well), "exit", "crash", "silent",
// "garbage", "stale" (says hello, never reads, exits 5 after a while).
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "harness/worker/frame.h"

namespace {

using namespace shardfuzz;

constexpr std::size_t kChunkBytes = std::size_t{4} << 20;
constexpr int kEatChunks = 100;  // 400 MiB, so that a broken watch does not eat the machine

char g_last_words[256] = "";

void on_death(int number) {
  write_last_words(kAnswerFd, g_last_words, std::strlen(g_last_words));
  signal(number, SIG_DFL);
  raise(number);
}

void hold_memory(int chunk_count) {
  for (int i = 0; i < chunk_count; ++i) {
    void* chunk = mmap(nullptr, kChunkBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (chunk == MAP_FAILED) _exit(9);
  }
}

void answer(const std::string& text) {
  if (!write_frame(kAnswerFd, FrameKind::kAnswer, text)) _exit(8);
}

void print_much() {
  for (int i = 0; i < 40'000; ++i) std::printf("noise line %06d, some text\n", i);  // 1.1 MiB
  std::fflush(stdout);
}

// All values of the variable that tests set: an environment may hold a name twice.
std::string notes() {
  const std::string name = "FAKE_WORKER_NOTE=";
  std::string all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::string(*entry).rfind(name, 0) == 0)
      all += std::string(*entry).substr(name.size()) + ";";
  }
  return all;
}

std::string oom_score() {
  char text[16] = "";
  const int fd = open("/proc/self/oom_score_adj", O_RDONLY);
  const ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  return std::string(text, got > 1 ? static_cast<std::size_t>(got) - 1 : 0);
}

// What came over from the engine: open descriptors, signal state, limits.
std::string inherited() {
  int open_count = 0;
  for (int fd = kAnswerFd + 1; fd < 256; ++fd) open_count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  struct sigaction action = {};
  sigaction(SIGPIPE, nullptr, &action);
  sigset_t blocked;
  sigprocmask(SIG_BLOCK, nullptr, &blocked);
  rlimit core = {};
  getrlimit(RLIMIT_CORE, &core);
  return "open " + std::to_string(open_count) + ", SIGPIPE ignored " +
         std::to_string(action.sa_handler == SIG_IGN) + ", SIGTERM blocked " +
         std::to_string(sigismember(&blocked, SIGTERM)) + ", core bytes " +
         std::to_string(core.rlim_cur) + ", oom score " + oom_score();
}

[[noreturn]] void sleep_for_ever() {
  for (;;) pause();
}

// Ends without an answer.
void misbehave(const std::string& request) {
  if (request == "segv") raise(SIGSEGV);
  if (request == "abort") abort();
  if (request == "exit") _exit(3);
  if (request == "exit0") _exit(0);
  if (request == "hang") sleep_for_ever();
  if (request == "kill") raise(SIGKILL);
  if (request.rfind("kill unless ", 0) == 0) {  // a file is there, which it makes
    const int fd = open(request.substr(12).c_str(), O_CREAT | O_EXCL, 0600);
    if (fd < 0) return answer("there");
    raise(SIGKILL);
  }
  if (request == "garbage") [[maybe_unused]]
    auto put = write(kAnswerFd, "no frame at all", 15);
  if (request == "huge") [[maybe_unused]]
    auto put = write(kAnswerFd,
                     "\xff\xff\xff\x7f"
                     "A",
                     5);
  if (request == "hello") (void)write_frame(kAnswerFd, FrameKind::kHello, "{}");
  if (request == "deaf") close(kAnswerFd);
  if (request == "eat") hold_memory(kEatChunks);
  if (request == "complain") {
    std::fprintf(stderr, "Traceback:\n  caf\xc3\xa9 \xff\x01\nRuntimeError: storage of size 0\n");
    _exit(1);
  }
  if (request == "orphan") {
    if (fork() == 0) sleep_for_ever();  // holds all pipes open
    raise(SIGSEGV);
  }
  sleep_for_ever();
}

void serve(const std::string& request) {
  if (request == "quiet exit") _exit(7);
  std::snprintf(g_last_words, sizeof g_last_words, "in aten::%s", request.c_str());
  const std::string place = "{\"step\":1,\"of\":\"" + request.substr(0, 40) + "\"}";
  if (!write_frame(kAnswerFd, FrameKind::kProgress, place)) _exit(8);
  if (request.rfind("echo ", 0) == 0) return answer(request.substr(5));
  if (request == "pid") return answer(std::to_string(getpid()));
  if (request == "notes") return answer(notes());
  if (request == "group") return answer(getpgrp() == getpid() ? "leader" : "member");
  if (request == "inherited") return answer(inherited());
  if (request == "grow") {
    hold_memory(10);
    return answer(std::to_string(getpid()));
  }
  if (request == "slow") {
    usleep(60'000);
    return answer("slow");
  }
  if (request == "print") {
    print_much();
    return answer("printed");
  }
  if (request == "print and exit") {
    print_much();
    _exit(4);
  }
  if (request == "answer and die") {
    answer("done");
    _exit(6);
  }
  misbehave(request);
}

void start() {
  const char* text = std::getenv("FAKE_WORKER_START");
  const std::string how = text == nullptr ? "" : text;
  if (how == "exit") {
    std::fprintf(stderr, "ModuleNotFoundError: No module named 'torch'\n");
    _exit(2);
  }
  if (how == "crash") raise(SIGSEGV);
  if (how == "silent") sleep_for_ever();
  if (how == "garbage") [[maybe_unused]]
    auto put = write(kAnswerFd, "import noise", 12);
  (void)write_frame(kAnswerFd, FrameKind::kHello, "{\"torch\":\"fake\"}");
  if (how == "stale") {
    usleep(30'000);
    _exit(5);
  }
}

}  // namespace

int main() {
  for (const int number : {SIGSEGV, SIGABRT, SIGUSR1}) signal(number, on_death);
  start();
  Frame frame;
  while (read_frame(kRequestFd, &frame) == ReadStatus::kFrame &&
         frame.kind == FrameKind::kRequest) {
    serve(frame.payload);
  }
  return 0;
}
