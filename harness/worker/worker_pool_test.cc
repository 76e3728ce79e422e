#include "harness/worker/worker_pool.h"

#include <unistd.h>

#include <cerrno>
#include <map>

#include "harness/worker/worker_test_support.h"

namespace shardfuzz {
namespace {

using Reason = Lost::Reason;

class WorkerPoolTest : public WorkerTest {
 protected:
  static PoolOptions options(const std::string& start = "") {
    return {.worker = fake_worker(start), .request_timeout = 5s};
  }
  // All outcomes by id; fails when an id comes twice or the pool gives up.
  static std::map<std::uint64_t, Outcome> drain(WorkerPool* pool) {
    std::map<std::uint64_t, Outcome> all;
    while (pool->pending_count() > 0) {
      auto done = pool->poll(5s);
      EXPECT_TRUE(done.ok()) << done.error().text();
      if (!done || done->empty()) break;
      for (const auto& [id, outcome] : *done) EXPECT_TRUE(all.emplace(id, outcome).second) << id;
    }
    return all;
  }
  static std::string run(WorkerPool* pool, const std::string& request) {
    auto outcome = pool->run_one(request);
    return outcome ? payload_of(*outcome) : "ERROR: " + outcome.error().text();
  }
};

TEST_F(WorkerPoolTest, EveryRequestComesBackOnceWithItsOwnAnswer) {
  WorkerPool pool(options(), clock_);
  for (std::uint64_t id = 0; id < 200; ++id) {
    ASSERT_TRUE(pool.submit(id, "echo " + std::to_string(id * 7)).ok());
  }
  EXPECT_EQ(pool.pending_count(), 200u);
  const auto all = drain(&pool);
  ASSERT_EQ(all.size(), 200u);
  for (const auto& [id, outcome] : all) EXPECT_EQ(payload_of(outcome), std::to_string(id * 7));
  EXPECT_EQ(pool.started_count(), 2);
  auto idle = pool.poll(1h);
  ASSERT_TRUE(idle.ok());
  EXPECT_TRUE(idle->empty()) << "at once where nothing is pending";
}

TEST_F(WorkerPoolTest, ResultsComeInOrderOfCompletion) {
  WorkerPool pool(options(), clock_);
  pool.start_all();
  ASSERT_EQ(run(&pool, "echo up"), "up");
  ASSERT_TRUE(pool.submit(1, "slow").ok());
  ASSERT_TRUE(pool.submit(2, "echo quick").ok());
  auto first = pool.poll(5s);
  ASSERT_TRUE(first.ok() && !first->empty());
  EXPECT_EQ(first->front().id, 2u);
  auto second = pool.poll(5s);
  ASSERT_TRUE(second.ok() && !second->empty());
  EXPECT_EQ(second->front().id, 1u);
}

TEST_F(WorkerPoolTest, PollGivesNothingWhenItsTimeIsOver) {
  WorkerPool pool(options(), clock_);
  ASSERT_TRUE(pool.submit(1, "hang").ok());
  const auto begin = clock_.now();
  auto done = pool.poll(30ms);
  EXPECT_TRUE(done.ok() && done->empty());
  EXPECT_GE(clock_.now() - begin, 30ms);
  EXPECT_EQ(pool.pending_count(), 1u);
}

TEST_F(WorkerPoolTest, GoesOnAfterEveryKindOfLoss) {
  auto with_limits = options();
  with_limits.worker.memory_bytes_max = std::int64_t{64} << 20;
  WorkerPool pool(with_limits, clock_);
  const std::vector<std::pair<std::string, Reason>> bad = {
      {"segv", Reason::kSignal}, {"abort", Reason::kSignal},     {"exit", Reason::kExit},
      {"eat", Reason::kMemory},  {"garbage", Reason::kProtocol}, {"kill", Reason::kSignal},
      {"hang", Reason::kHang}};
  std::uint64_t id = 0;
  for (const auto& [request, reason] : bad) {
    const Duration timeout = reason == Reason::kHang ? 200ms : 5s;
    ASSERT_TRUE(pool.submit(id++, request, timeout).ok());
    ASSERT_TRUE(pool.submit(id++, "echo " + request).ok());
  }
  const auto all = drain(&pool);
  ASSERT_EQ(all.size(), 2 * bad.size());
  for (std::size_t i = 0; i < bad.size(); ++i) {
    const auto* lost = std::get_if<Lost>(&all.at(2 * i));
    ASSERT_NE(lost, nullptr) << bad[i].first;
    EXPECT_EQ(lost->reason, bad[i].second) << bad[i].first << ": " << lost->text();
    EXPECT_EQ(payload_of(all.at(2 * i + 1)), bad[i].first);
  }
}

TEST_F(WorkerPoolTest, ALostWorkerIsReplacedOnlyWhenThereIsWork) {
  auto one = options();
  one.worker_count = 1;
  WorkerPool pool(one, clock_);
  EXPECT_EQ(pool.started_count(), 0);
  run(&pool, "exit");
  EXPECT_TRUE(pool.poll(20ms).ok());
  EXPECT_EQ(pool.started_count(), 1);
  EXPECT_EQ(run(&pool, "echo x"), "x");
  EXPECT_EQ(pool.started_count(), 2);
}

TEST_F(WorkerPoolTest, ALostWorkerCanBeReplacedAtOnce) {
  auto eager = options();
  eager.worker_count = 1;
  eager.replace_at_once = true;
  WorkerPool pool(eager, clock_);
  run(&pool, "exit");
  EXPECT_EQ(pool.started_count(), 2);
  EXPECT_EQ(run(&pool, "echo x"), "x");
  EXPECT_EQ(pool.started_count(), 2);
}

TEST_F(WorkerPoolTest, CasesThatCrashWithoutEndAreNoFailureOfThePool) {
  WorkerPool pool(options(), clock_);
  for (int i = 0; i < 3 * kMaxRestartsInARow; ++i) {
    EXPECT_NE(run(&pool, "exit").find("exit code 3"), std::string::npos);
  }
  EXPECT_EQ(run(&pool, "echo still here"), "still here");
}

TEST_F(WorkerPoolTest, LossesInARowCanBeLimited) {
  auto limited = options();
  limited.losses_in_a_row_max = 3;
  WorkerPool pool(limited, clock_);
  run(&pool, "exit");
  run(&pool, "exit");
  EXPECT_EQ(run(&pool, "echo resets"), "resets");
  run(&pool, "exit");
  run(&pool, "exit");
  EXPECT_EQ(run(&pool, "exit").substr(0, 27), "LOST: left with exit code 3") << "result first";
  EXPECT_NE(run(&pool, "echo x").find("3 requests in a row lost their worker"), std::string::npos);
}

TEST_F(WorkerPoolTest, AWorkerThatSaysWhyItCannotStartIsNotTriedAgain) {
  WorkerPool pool(options("exit"), clock_);
  EXPECT_EQ(run(&pool, "echo x"), "ERROR: ModuleNotFoundError: No module named 'torch'\n");
  EXPECT_LE(pool.started_count(), 2) << "one for each slot, if the first is slow to end";
  EXPECT_FALSE(pool.submit(2, "echo y").ok()) << "for good";
  EXPECT_FALSE(WorkerPool(options("exit"), clock_).wait_hello().ok());
}

TEST_F(WorkerPoolTest, AProgramThatIsNotThereIsNotTriedAgain) {
  WorkerPool pool({.worker = {.argv = {"/nowhere/worker"}}}, clock_);
  const std::string text = run(&pool, "echo x");
  EXPECT_EQ(text.find("ERROR: /nowhere/worker: "), 0u) << text;
  EXPECT_NE(text.find("No such file"), std::string::npos) << text;
  EXPECT_NE(text.find("tools/setup"), std::string::npos) << text;
  EXPECT_LE(pool.started_count(), 2) << "one for each slot, if the first is slow to end";
}

TEST_F(WorkerPoolTest, AWorkerAboveItsMemoryAtTheStartIsNotTriedAgain) {
  auto tight = options("silent");
  tight.worker.memory_bytes_max = 1;
  WorkerPool pool(tight, clock_);
  const std::string text = run(&pool, "echo x");
  EXPECT_NE(text.find("above the limit of 0 MiB before its hello (raise --memory)"),
            std::string::npos)
      << text;
  EXPECT_LE(pool.started_count(), 2) << "one for each slot, if the first is slow to end";
}

TEST_F(WorkerPoolTest, WorkersThatDieAtTheStartAreAnErrorThatSaysWhy) {
  WorkerPool pool(options("crash"), clock_);
  const std::string text = run(&pool, "echo x");
  EXPECT_NE(text.find("workers end by themselves, 5 in a row; the last one: killed by SIGSEGV "
                      "before its hello"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(FAKE_WORKER), std::string::npos) << text;
  EXPECT_LE(pool.started_count(), kMaxRestartsInARow + 1);
  EXPECT_FALSE(pool.submit(2, "echo y").ok()) << "for good";
}

TEST_F(WorkerPoolTest, ARequestWhoseWorkerWasKilledFromOutsideIsTriedOnceMore) {
  WorkerPool pool(options(), clock_);
  const std::string file = testing::TempDir() + "killed_once_" + std::to_string(getpid());
  EXPECT_EQ(run(&pool, "kill unless " + file), "there");
  EXPECT_EQ(pool.started_count(), 2);
  unlink(file.c_str());
  EXPECT_NE(run(&pool, "kill").find("LOST: killed by SIGKILL from outside"), std::string::npos);
  EXPECT_EQ(pool.started_count(), 3) << "twice, the first time by the second worker";
}

TEST_F(WorkerPoolTest, AnInterruptEndsTheWaitForOneRequest) {
  auto interrupted = options();
  int asked = 0;
  interrupted.is_interrupted = [&] { return ++asked > 2; };
  WorkerPool pool(interrupted, clock_);
  EXPECT_EQ(run(&pool, "hang"), "ERROR: interrupted");
  EXPECT_EQ(run(&pool, "echo x"), "ERROR: interrupted") << "for good";
  EXPECT_FALSE(pool.wait_hello().ok() && pool.started_count() > 1);
}

TEST_F(WorkerPoolTest, ARequestThatWasNeverReadIsNotBlamed) {
  WorkerPool pool(options("stale"), clock_);
  const std::string text = run(&pool, "echo innocent");
  EXPECT_NE(text.find("workers end by themselves, 5 in a row"), std::string::npos) << text;
  EXPECT_NE(text.find("exit code 5"), std::string::npos) << text;
}

TEST_F(WorkerPoolTest, AnAnswerIsKeptWhenItsWorkerDiesRightAfterIt) {
  WorkerPool pool(options(), clock_);
  for (std::uint64_t id = 0; id < 20; ++id) ASSERT_TRUE(pool.submit(id, "answer and die").ok());
  const auto all = drain(&pool);
  ASSERT_EQ(all.size(), 20u);
  for (const auto& [id, outcome] : all) EXPECT_EQ(payload_of(outcome), "done");
}

TEST_F(WorkerPoolTest, WorkersAreRecycledByCount) {
  auto recycling = options();
  recycling.worker_count = 1;
  recycling.recycle_after = 3;
  WorkerPool pool(recycling, clock_);
  std::vector<std::string> pids;
  for (int i = 0; i < 7; ++i) pids.push_back(run(&pool, "pid"));
  EXPECT_EQ(pids[0], pids[2]);
  EXPECT_NE(pids[2], pids[3]);
  EXPECT_EQ(pids[3], pids[5]);
  EXPECT_NE(pids[5], pids[6]);
  EXPECT_EQ(pool.recycled_count(), 2);
}

TEST_F(WorkerPoolTest, WorkersAreRecycledByMemory) {
  auto recycling = options();
  recycling.worker_count = 1;
  recycling.rss_bytes_soft_max = std::int64_t{30} << 20;
  WorkerPool pool(recycling, clock_);
  const std::string first = run(&pool, "pid");
  EXPECT_EQ(run(&pool, "grow"), first) << "its answer counts";
  EXPECT_NE(run(&pool, "pid"), first);
  EXPECT_EQ(pool.recycled_count(), 1);
}

TEST_F(WorkerPoolTest, HelloIsKnownBeforeAnyRequest) {
  WorkerPool pool(options(), clock_);
  auto hello = pool.wait_hello();
  ASSERT_TRUE(hello.ok());
  EXPECT_EQ(*hello, "{\"torch\":\"fake\"}");
  EXPECT_EQ(pool.started_count(), 1);
}

TEST_F(WorkerPoolTest, RefusesWhatItCannotCarry) {
  WorkerPool pool(options(), clock_);
  auto status = pool.submit(9, std::string(kPayloadBytesMax + 1, 'x'));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().text(),
            "request 9: a request of 67108865 bytes, above the limit of 67108864 (make the case "
            "smaller)");
  EXPECT_EQ(pool.pending_count(), 0u);
}

TEST_F(WorkerPoolTest, ShutdownIsQuickAndLeavesNothing) {
  WorkerPool pool(options(), clock_);
  pool.start_all();
  ASSERT_TRUE(pool.submit(1, "hang").ok());
  ASSERT_TRUE(pool.submit(2, "echo x").ok());
  ASSERT_TRUE(pool.submit(3, "hang").ok());
  EXPECT_TRUE(pool.poll(5s).ok());
  const auto begin = clock_.now();
  pool.shutdown();
  EXPECT_LT(clock_.now() - begin, 400ms) << "busy workers are not waited for";
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  EXPECT_FALSE(pool.submit(4, "echo x").ok());
}

TEST_F(WorkerPoolTest, NoWorkerOutlivesAKilledEngine) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t engine = fork();
  if (engine == 0) {
    WorkerPool pool({.worker = fake_worker(), .worker_count = 1}, clock_);
    const std::string pid = run(&pool, "pid");
    (void)pool.submit(1, "hang");
    (void)pool.poll(20ms);
    const ssize_t put = write(ends[1], pid.c_str(), pid.size() + 1);
    for (;;) put < 0 ? _exit(1) : (void)pause();
  }
  char text[32] = "";
  ASSERT_GT(read(ends[0], text, sizeof text - 1), 0);
  close(ends[0]);
  close(ends[1]);
  const pid_t worker = static_cast<pid_t>(std::stoi(text));
  EXPECT_EQ(kill(worker, 0), 0) << "alive as long as the engine is";
  ASSERT_EQ(kill(engine, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(engine, &status, 0), engine);
  // This process is the subreaper: the orphan comes to it. Without the kill this waits for ever,
  // and CTest's limit would tell.
  ASSERT_EQ(waitpid(worker, &status, 0), worker);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

}  // namespace
}  // namespace shardfuzz
