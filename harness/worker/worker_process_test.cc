#include "harness/worker/worker_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "harness/worker/worker_test_support.h"

namespace shardfuzz {
namespace {

using Reason = Lost::Reason;

class WorkerProcessTest : public WorkerTest {
 protected:
  Lost lose(const std::string& request, WorkerOptions options = fake_worker(),
            Duration timeout = 5s) {
    WorkerProcess worker(std::move(options), clock_);
    const Outcome outcome = worker.ask(request, timeout);
    EXPECT_TRUE(std::holds_alternative<Lost>(outcome)) << payload_of(outcome);
    EXPECT_TRUE(worker.is_gone());
    EXPECT_EQ(kill(worker.pid(), 0), -1) << "still there";
    return std::holds_alternative<Lost>(outcome) ? std::get<Lost>(outcome) : Lost{};
  }
};

TEST_F(WorkerProcessTest, AnswersOneRequestAfterTheOther) {
  WorkerProcess worker(fake_worker(), clock_);
  EXPECT_TRUE(worker.is_starting());
  EXPECT_EQ(worker.hello(), std::nullopt);
  EXPECT_EQ(payload_of(worker.ask("echo one", 5s)), "one");
  EXPECT_EQ(worker.hello(), "{\"torch\":\"fake\"}");
  EXPECT_EQ(payload_of(worker.ask("echo ", 5s)), "");
  EXPECT_EQ(payload_of(worker.ask("group", 5s)), "leader");
  const std::string large(5'000'000, 'x');
  EXPECT_EQ(payload_of(worker.ask("echo " + large, 5s)), large);
  const Outcome last = worker.ask("slow", 5s);
  ASSERT_TRUE(std::holds_alternative<Answer>(last));
  EXPECT_GE(std::get<Answer>(last).seconds, 0.06);
  EXPECT_GT(std::get<Answer>(last).rss_bytes, 100'000);
  EXPECT_TRUE(worker.is_idle());
}

TEST_F(WorkerProcessTest, InheritsNoDescriptorsAndNoSignalState) {
  // As a library of the engine might leave one: without O_CLOEXEC.
  const int leaky = fcntl(STDERR_FILENO, F_DUPFD, 20);
  ASSERT_GE(leaky, 20);
  const auto pipe_before = signal(SIGPIPE, SIG_IGN);
  sigset_t term, before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, &before);
  WorkerProcess worker(fake_worker(), clock_);
  sigset_t after;
  sigprocmask(SIG_SETMASK, &before, &after);
  EXPECT_EQ(sigismember(&after, SIGTERM), 1) << "the engine's own mask is as it was";
  EXPECT_EQ(sigismember(&after, SIGINT), 0);
  signal(SIGPIPE, pipe_before);
  close(leaky);
  EXPECT_EQ(payload_of(worker.ask("inherited", 5s)),
            "open 0, SIGPIPE ignored 0, SIGTERM blocked 0, core bytes 0, oom score 1000");
}

TEST_F(WorkerProcessTest, AnInheritedNameIsReplacedNotRepeated) {
  ASSERT_EQ(setenv("FAKE_WORKER_NOTE", "the engine's own", 1), 0);
  WorkerProcess worker(fake_worker(), clock_);
  EXPECT_EQ(payload_of(worker.ask("notes", 5s)), "a note;");
  unsetenv("FAKE_WORKER_NOTE");
}

TEST_F(WorkerProcessTest, CrashesAreNamedWithLastWordsAndPlace) {
  const Lost segv = lose("segv");
  EXPECT_EQ(segv.reason, Reason::kSignal);
  EXPECT_EQ(segv.signal_or_code, SIGSEGV);
  EXPECT_EQ(segv.what, "killed by SIGSEGV");
  EXPECT_EQ(segv.last_words, "in aten::segv");
  EXPECT_EQ(segv.last_place, "{\"step\":1,\"of\":\"segv\"}");
  EXPECT_FALSE(segv.request_unread);

  const Lost aborted = lose("abort");
  EXPECT_EQ(aborted.reason, Reason::kSignal);
  EXPECT_EQ(aborted.signal_or_code, SIGABRT);
  EXPECT_EQ(aborted.last_words, "in aten::abort");

  const Lost killed = lose("kill");
  EXPECT_EQ(killed.reason, Reason::kSignal);
  EXPECT_EQ(killed.signal_or_code, SIGKILL);
  EXPECT_EQ(killed.what, "killed by SIGKILL from outside (the kernel, out of memory?)");
  EXPECT_EQ(killed.last_words, "");
}

TEST_F(WorkerProcessTest, ExitsAreLossesWhateverTheirCode) {
  const Lost three = lose("exit");
  EXPECT_EQ(three.reason, Reason::kExit);
  EXPECT_EQ(three.signal_or_code, 3);
  EXPECT_EQ(three.what, "left with exit code 3");
  const Lost zero = lose("exit0");
  EXPECT_EQ(zero.reason, Reason::kExit);
  EXPECT_EQ(zero.signal_or_code, 0);
}

TEST_F(WorkerProcessTest, AHangEndsAtItsBound) {
  const Lost lost = lose("hang", fake_worker(), 200ms);
  EXPECT_EQ(lost.reason, Reason::kHang);
  EXPECT_EQ(lost.what, "no answer within 0.2 s");
  EXPECT_EQ(lost.signal_or_code, 0);
  EXPECT_EQ(lost.last_place, "{\"step\":1,\"of\":\"hang\"}");
  EXPECT_GE(lost.seconds, 0.2);
  EXPECT_LT(lost.seconds, 2.0);
}

TEST_F(WorkerProcessTest, AHangingWorkerCanBeAskedWhereItIs) {
  auto options = fake_worker();
  options.hang_signal = SIGUSR1;
  options.hang_grace = 5s;
  const Lost lost = lose("hang", options, 50ms);
  EXPECT_EQ(lost.reason, Reason::kHang);
  EXPECT_EQ(lost.last_words, "in aten::hang");
  EXPECT_LT(lost.seconds, 4.0) << "its death ends the grace";
}

TEST_F(WorkerProcessTest, MemoryIsWatched) {
  auto options = fake_worker();
  options.memory_bytes_max = std::int64_t{64} << 20;
  const Lost lost = lose("eat", options);
  EXPECT_EQ(lost.reason, Reason::kMemory);
  EXPECT_GT(lost.rss_bytes_max, options.memory_bytes_max);
  EXPECT_NE(lost.what.find("above the limit of 64 MiB"), std::string::npos) << lost.what;
}

TEST_F(WorkerProcessTest, NonsenseOnTheAnswerChannelIsAProtocolError) {
  const Lost garbage = lose("garbage");
  EXPECT_EQ(garbage.reason, Reason::kProtocol);
  EXPECT_EQ(garbage.what, "wrote unknown frame kind 0x72");
  EXPECT_EQ(lose("huge").what, "wrote a frame of 2147483647 bytes, above the limit of 67108864");
  const Lost hello = lose("hello");
  EXPECT_EQ(hello.reason, Reason::kProtocol);
  EXPECT_EQ(hello.what, "wrote a frame 'H' out of turn");
}

TEST_F(WorkerProcessTest, AClosedAnswerChannelOfALiveWorkerIsAProtocolError) {
  const Lost lost = lose("deaf");
  EXPECT_EQ(lost.reason, Reason::kProtocol);
  EXPECT_EQ(lost.what, "closed its answer channel and lived on");
}

TEST_F(WorkerProcessTest, NoiseOnStdoutDoesNotDisturbAndIsBounded) {
  WorkerProcess worker(fake_worker(), clock_);
  EXPECT_EQ(payload_of(worker.ask("print", 5s)), "printed");
  EXPECT_EQ(payload_of(worker.ask("print", 5s)), "printed");
  const Lost lost = lose("print and exit");
  EXPECT_EQ(lost.signal_or_code, 4);
  EXPECT_EQ(lost.output_tail.size(), 20u * 29u);
  EXPECT_EQ(lost.output_tail.substr(0, 17), "noise line 039980");
}

TEST_F(WorkerProcessTest, TheOutputTailIsPrintable) {
  const Lost lost = lose("complain");
  EXPECT_EQ(lost.output_tail, "Traceback:\n  caf\xc3\xa9 ??\nRuntimeError: storage of size 0\n");
}

TEST_F(WorkerProcessTest, FailuresToStart) {
  const Lost left = lose("echo", fake_worker("exit"));
  EXPECT_EQ(left.reason, Reason::kStartFailed);
  EXPECT_EQ(left.what, "left with exit code 2 before its hello");
  EXPECT_EQ(left.output_tail, "ModuleNotFoundError: No module named 'torch'\n");
  const Lost crashed = lose("echo", fake_worker("crash"));
  EXPECT_EQ(crashed.reason, Reason::kStartFailed);
  EXPECT_EQ(crashed.signal_or_code, SIGSEGV);
  const Lost noisy = lose("echo", fake_worker("garbage"));
  EXPECT_EQ(noisy.reason, Reason::kStartFailed);
  EXPECT_EQ(noisy.what, "wrote unknown frame kind 0x72 before its hello");
  auto options = fake_worker("silent");
  options.start_timeout = 100ms;
  const Lost silent = lose("echo", options);
  EXPECT_EQ(silent.reason, Reason::kStartFailed);
  EXPECT_EQ(silent.what, "no hello within 0.1 s");
}

TEST_F(WorkerProcessTest, AProgramThatIsNotThereIsAFailureToStart) {
  WorkerProcess worker({.argv = {"/nonexistent/worker"}}, clock_);
  const Outcome outcome = worker.ask("echo", 5s);
  ASSERT_TRUE(std::holds_alternative<Lost>(outcome));
  EXPECT_EQ(std::get<Lost>(outcome).reason, Reason::kStartFailed);
  EXPECT_EQ(std::get<Lost>(outcome).what,
            "/nonexistent/worker: cannot execute the worker program: No such file or directory "
            "(check that the worker program is built and can be executed)");
}

TEST_F(WorkerProcessTest, WhatAWorkerLeavesBehindDiesWithIt) {
  orphan_count_expected_ = 1;  // TearDown reaps it, and would wait for ever if it lived
  const Lost lost = lose("orphan");
  EXPECT_EQ(lost.reason, Reason::kSignal);
  EXPECT_EQ(lost.signal_or_code, SIGSEGV);
}

TEST_F(WorkerProcessTest, AnAnswerGivenBeforeDyingCounts) {
  WorkerProcess worker(fake_worker(), clock_);
  EXPECT_EQ(payload_of(worker.ask("answer and die", 5s)), "done");
  std::optional<Outcome> end;
  for (int i = 0; i < 500 && !end; ++i) {
    end = worker.service();
    usleep(1000);
  }
  ASSERT_TRUE(end && std::holds_alternative<Lost>(*end));
  EXPECT_EQ(std::get<Lost>(*end).signal_or_code, 6);
  EXPECT_TRUE(worker.is_gone());
}

TEST_F(WorkerProcessTest, ARequestToADeadWorkerIsALossThatBlamesNobody) {
  WorkerProcess worker(fake_worker(), clock_);
  EXPECT_EQ(payload_of(worker.ask("answer and die", 5s)), "done");
  siginfo_t info = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(worker.pid()), &info, WEXITED | WNOWAIT), 0);
  ASSERT_TRUE(worker.is_idle()) << "nobody has told it yet";
  worker.send("echo x", 5s);  // would be a SIGPIPE on a pipe
  const auto end = worker.service();
  ASSERT_TRUE(end && std::holds_alternative<Lost>(*end));
  EXPECT_EQ(std::get<Lost>(*end).signal_or_code, 6);
  EXPECT_TRUE(std::get<Lost>(*end).request_unread);
}

TEST_F(WorkerProcessTest, ADeadlineThatPassedWhileNobodyListenedIsExtendedOnce) {
  ManualClock clock;
  WorkerProcess worker(fake_worker(), clock);
  EXPECT_EQ(payload_of(worker.ask("echo up", 1h)), "up");
  worker.send("hang", 60s);
  clock.advance(90s);
  EXPECT_EQ(worker.service(), std::nullopt) << "60 s more";
  clock.advance(59s);
  EXPECT_EQ(worker.service(), std::nullopt);
  EXPECT_TRUE(worker.is_busy());
  clock.advance(2s);
  std::optional<Outcome> end;
  for (int i = 0; i < 500 && !end; ++i) {
    end = worker.service();
    usleep(1000);
  }
  ASSERT_TRUE(end && std::holds_alternative<Lost>(*end));
  EXPECT_EQ(std::get<Lost>(*end).what, "no answer within 60 s");
  EXPECT_EQ(std::get<Lost>(*end).seconds, 151.0);
}

TEST_F(WorkerProcessTest, ANewRequestForgetsTheLastPlaceOfTheOneBefore) {
  WorkerProcess worker(fake_worker(), clock_);
  EXPECT_EQ(payload_of(worker.ask("echo before", 5s)), "before");
  const Outcome end = worker.ask("quiet exit", 5s);
  ASSERT_TRUE(std::holds_alternative<Lost>(end));
  EXPECT_EQ(std::get<Lost>(end).signal_or_code, 7);
  EXPECT_EQ(std::get<Lost>(end).last_place, "");
}

TEST(Outcome, SignalNames) {
  EXPECT_EQ(signal_name(SIGFPE), "SIGFPE");
  EXPECT_EQ(signal_name(SIGBUS), "SIGBUS");
  EXPECT_EQ(signal_name(1000), "signal 1000");
}

TEST(Outcome, TextIsOneLineWithWhatIsKnown) {
  Lost lost{.reason = Reason::kSignal, .what = "killed by SIGFPE", .seconds = 1.5};
  EXPECT_EQ(lost.text(), "killed by SIGFPE after 1.50 s");
  lost.last_words = "in fsdp::split_with_sizes_copy";
  lost.last_place = "{}";
  EXPECT_EQ(lost.text(),
            "killed by SIGFPE after 1.50 s; last words: in "
            "fsdp::split_with_sizes_copy; last place: {}");
}

}  // namespace
}  // namespace shardfuzz
