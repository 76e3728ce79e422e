// What FiberScheduler adds to scheduler_test.cc and random_programs_test.cc, which hold both
// schedulers to one order.
#include "harness/collective/fiber_scheduler.h"

#include <alloca.h>
#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace shardfuzz {
namespace {

void ignore_stop(Wake, const std::vector<Scheduler::RankView>&) {}

// A run in which all ranks take turns.
struct Turns {
  explicit Turns(int ranks) : scheduler(&stacks, ranks, {}, ignore_stop) {}
  FiberStacks stacks;
  FiberScheduler scheduler;
};

TEST(FiberScheduler, EveryRankRunsToItsEndOnTheCallersThread) {
  Turns turns(3);
  std::vector<std::thread::id> threads;
  turns.scheduler.run([&](int rank) {
    turns.scheduler.yield(rank);
    threads.push_back(std::this_thread::get_id());
  });
  EXPECT_EQ(threads, std::vector<std::thread::id>(3, std::this_thread::get_id()));
}

// Uses `depth` times 4 KiB of stack, hands over at every level, and adds up what it left there.
int sum_of_stack(Scheduler& scheduler, int rank, int depth) {
  if (depth == 0) return 0;
  auto* block = static_cast<volatile int*>(alloca(4096));
  block[0] = depth;
  block[1023] = rank;
  scheduler.yield(rank);
  const int rest = sum_of_stack(scheduler, rank, depth - 1);
  scheduler.yield(rank);
  return block[0] + block[1023] + rest;
}

TEST(FiberScheduler, EveryRankHasItsStackToItself) {
  constexpr int kDepth = 48;  // of 64 blocks that would fill a stack without frames
  Turns turns(4);
  std::vector<int> sums(4);
  turns.scheduler.run([&](int rank) {
    sums[static_cast<std::size_t>(rank)] = sum_of_stack(turns.scheduler, rank, kDepth);
  });
  const int depths = kDepth * (kDepth + 1) / 2;
  EXPECT_EQ(sums,
            (std::vector<int>{depths, depths + kDepth, depths + 2 * kDepth, depths + 3 * kDepth}));
}

TEST(FiberSchedulerDeathTest, ARankThatNeedsMoreThanItsStackEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Turns turns(2);
  EXPECT_DEATH(turns.scheduler.run(
                   [&](int rank) { sum_of_stack(turns.scheduler, rank, rank == 1 ? 65 : 1); }),
               "");
}

TEST(FiberScheduler, ARankMayHandOverWhileItHandlesAnException) {
  Turns turns(4);
  std::vector<std::string> caught(4);
  turns.scheduler.run([&](int rank) {
    for (int round = 0; round < 5; ++round) {
      try {
        try {
          turns.scheduler.yield(rank);
          throw std::runtime_error(std::to_string(rank));
        } catch (const std::exception&) {
          for (int i = 0; i <= (rank + round) % 3; ++i) turns.scheduler.yield(rank);
          throw;
        }
      } catch (const std::exception& error) {
        turns.scheduler.yield(rank);
        caught[static_cast<std::size_t>(rank)] += error.what();
      }
    }
  });
  EXPECT_EQ(caught, (std::vector<std::string>{"00000", "11111", "22222", "33333"}));
}

TEST(FiberScheduler, ARunMayLieInsideAnother) {
  Turns outer(2);
  std::string text;
  outer.scheduler.run([&](int rank) {
    text += "(";
    FiberScheduler inner(&outer.stacks, 2, {}, ignore_stop);
    inner.run([&](int inner_rank) {
      text += std::to_string(10 * rank + inner_rank) + " ";
      outer.scheduler.yield(rank);
      inner.yield(inner_rank);
    });
    text += ")";
  });
  EXPECT_EQ(text, "(0 (10 1 11 ))");
  EXPECT_EQ(outer.stacks.mapped_count(), 6U);
}

std::size_t mapping_count() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

TEST(FiberScheduler, TenThousandRunsShareTheirStacks) {
  FiberStacks stacks;
  int turns = 0;
  const auto runs = [&](int count) {
    for (int i = 0; i < count; ++i) {
      FiberScheduler scheduler(&stacks, 4, {}, ignore_stop);
      scheduler.run([&](int rank) {
        scheduler.yield(rank);
        ++turns;
      });
    }
  };
  runs(100);
  const std::size_t mappings = mapping_count();
  runs(9'900);
  EXPECT_EQ(turns, 40'000);
  EXPECT_EQ(stacks.mapped_count(), 4U);
  EXPECT_LT(mapping_count(), mappings + 40) << "the allocator may map some, 9,900 runs many";
}

TEST(FiberSchedulerDeathTest, AnExceptionThatEscapesIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Turns turns(2);
  EXPECT_DEATH(turns.scheduler.run([](int rank) {
    if (rank == 1) throw std::runtime_error("out");
  }),
               "the program of rank 1 lets an exception escape: out");
  EXPECT_DEATH(turns.scheduler.run([](int) { throw 1; }),
               "the program of rank 0 lets an exception escape");
}

TEST(FiberSchedulerDeathTest, ASecondRunOfOneObjectIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Turns turns(1);
  turns.scheduler.run([](int) {});
  EXPECT_DEATH(turns.scheduler.run([](int) {}), "rank 0 entered twice");
}

}  // namespace
}  // namespace shardfuzz
