#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "harness/collective/test_world.h"

namespace shardfuzz {
namespace {

// What both implementations must do.
class SchedulerTest : public testing::TestWithParam<RanksOn> {
 protected:
  static Ints order_of(Schedule schedule, int ranks, int turns);
  static Ints mixed_run(Schedule schedule);
};

INSTANTIATE_TEST_SUITE_P(, SchedulerTest, testing::Values(RanksOn::kThreads, RanksOn::kFibers),
                         [](const auto& test) {
                           return test.param == RanksOn::kThreads ? "Threads" : "Fibers";
                         });

// The order in which ranks hold the baton when each yields `turns` times.
Ints SchedulerTest::order_of(Schedule schedule, int ranks, int turns) {
  World world({.ranks = ranks, .schedule = std::move(schedule), .on = GetParam()});
  Ints order;
  world.run([&](int rank) {
    for (int i = 0; i < turns; ++i) {
      order.push_back(rank);
      world.scheduler.yield(rank);
    }
  });
  return order;
}

TEST_P(SchedulerTest, RoundRobinTakesRanksInOrderFromRankZero) {
  EXPECT_EQ(order_of({}, 3, 3), (Ints{0, 1, 2, 0, 1, 2, 0, 1, 2}));
}

TEST_P(SchedulerTest, RandomOrderComesFromTheSeedAndGivesEachRankItsTurns) {
  const auto order = [](std::uint64_t seed) {
    return order_of({.policy = SchedulePolicy::kRandom, .seed = seed}, 3, 20);
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
  const Ints turns = order(7);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(std::count(turns.begin(), turns.end(), rank), 20);
}

// "0 0 0 1 1" -> {0, 1}: who ran, without repeats in a row.
Ints blocks_of(const Ints& order) {
  Ints blocks;
  for (const int rank : order) {
    if (blocks.empty() || blocks.back() != rank) blocks.push_back(rank);
  }
  return blocks;
}

TEST_P(SchedulerTest, PriorityRunsTheHighestRankUntilItIsDone) {
  std::set<Ints> seen;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Ints blocks =
        blocks_of(order_of({.policy = SchedulePolicy::kPriority, .seed = seed}, 3, 5));
    ASSERT_EQ(blocks.size(), 3U) << text_of(blocks);
    seen.insert(blocks);
  }
  EXPECT_EQ(seen.size(), 6U) << "every order of three ranks is reached";
}

TEST_P(SchedulerTest, AChangePointLowersTheRunningRankBelowAllOthers) {
  std::set<std::size_t> places;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Ints order =
        order_of({.policy = SchedulePolicy::kPriority, .seed = seed, .change_points = 1}, 2, 100);
    const Ints blocks = blocks_of(order);
    // The first rank is overtaken once, at a place in the first 64 hand-overs, and ends last.
    ASSERT_EQ(blocks, (Ints{order[0], 1 - order[0], order[0]})) << "seed " << seed;
    std::size_t place = 0;
    while (order[place] == order[0]) ++place;
    EXPECT_GE(place, 1U);
    EXPECT_LE(place, 64U);
    places.insert(place);
  }
  EXPECT_GT(places.size(), 5U) << "the place depends on the seed";
}

TEST_P(SchedulerTest, ThreePoliciesGiveThreeOrders) {
  const auto order = [](SchedulePolicy policy) {
    return order_of({.policy = policy, .seed = 3}, 4, 10);
  };
  EXPECT_NE(order(SchedulePolicy::kRoundRobin), order(SchedulePolicy::kRandom));
  EXPECT_NE(order(SchedulePolicy::kRoundRobin), order(SchedulePolicy::kPriority));
  EXPECT_NE(order(SchedulePolicy::kRandom), order(SchedulePolicy::kPriority));
}

TEST_P(SchedulerTest, ADelayedRankIsPassedOverThatManyTimes) {
  EXPECT_EQ(order_of({.delays = {3}}, 2, 4), (Ints{1, 1, 1, 0, 1, 0, 0, 0}));
}

TEST_P(SchedulerTest, DelaysNeverStopARunWhoseOtherRanksAreDone) {
  EXPECT_EQ(order_of({.delays = {1000, 1000}}, 2, 2), (Ints{0, 1, 0, 1}));
}

TEST_P(SchedulerTest, AParkedRankGoesOnWhenItIsUnparked) {
  World world({.ranks = 2, .on = GetParam()});
  world.run([&](int rank) {
    if (rank == 0) {
      world.log(0, "parks");
      EXPECT_EQ(world.scheduler.park(0, says("news")), Wake::kGo);
      world.log(0, "goes on");
    } else {
      world.scheduler.yield(1);
      world.log(1, "unparks");
      world.scheduler.unpark(0);
      world.scheduler.yield(1);
      world.log(1, "ends");
    }
  });
  EXPECT_EQ(world.lines, (Strings{"0 parks", "1 unparks", "0 goes on", "1 ends"}));
  EXPECT_TRUE(world.stops.empty());
}

TEST_P(SchedulerTest, AnUnparkBeforeTheParkIsNotRemembered) {
  World world({.ranks = 2, .on = GetParam()});
  world.run([&](int rank) {
    if (rank == 0) {
      world.scheduler.yield(0);  // rank 1 unparks in the meantime
      EXPECT_EQ(world.scheduler.park(0, says("news")), Wake::kDeadlock);
    } else {
      world.scheduler.unpark(0);
    }
  });
  EXPECT_EQ(world.stops, (std::vector<Wake>{Wake::kDeadlock}));
}

TEST_P(SchedulerTest, ADeadlockIsKnownAtOnceAndUnwindsInRankOrder) {
  World world({.ranks = 3, .on = GetParam()});
  world.run([&](int rank) {
    if (rank == 2) return;  // done
    const Wake wake = world.scheduler.park(rank, says("thing " + std::to_string(rank)));
    world.log(rank, wake == Wake::kDeadlock ? "deadlock" : "other");
    world.scheduler.yield(rank);  // does not hand over any more
    world.log(rank,
              world.scheduler.park(rank, says("again")) == Wake::kDeadlock ? "at once" : "other");
  });
  EXPECT_EQ(world.stops, (std::vector<Wake>{Wake::kDeadlock})) << "told once";
  EXPECT_EQ(world.lines, (Strings{"0 deadlock", "0 at once", "1 deadlock", "1 at once"}));
  const auto stuck = world.recorded<Stuck>();
  ASSERT_EQ(stuck.size(), 1U);
  EXPECT_FALSE(stuck[0].step_bound);
  EXPECT_EQ(stuck[0].ranks,
            (std::vector<Stuck::Rank>{
                {0, "waits", "thing 0"}, {1, "waits", "thing 1"}, {2, "done", ""}}));
}

TEST_P(SchedulerTest, UnwindingFollowsRanksWhateverThePolicy) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    World world({.ranks = 4,
                 .schedule = {.policy = SchedulePolicy::kRandom, .seed = seed},
                 .on = GetParam()});
    world.run([&](int rank) {
      if (rank == 1) return;
      EXPECT_EQ(world.scheduler.park(rank, says("nothing")), Wake::kDeadlock);
      world.log(rank, "unwinds");
    });
    EXPECT_EQ(world.lines, (Strings{"0 unwinds", "2 unwinds", "3 unwinds"})) << "seed " << seed;
  }
}

TEST_P(SchedulerTest, ARankThatLeavesWhileAnotherIsParkedEndsTheWait) {
  World world({.ranks = 2, .on = GetParam()});
  world.run([&](int rank) {
    if (rank == 0) {
      EXPECT_EQ(world.scheduler.park(0, says("rank 1")), Wake::kDeadlock);
    } else {
      world.log(1, "leaves");
    }
  });
  EXPECT_EQ(world.stops, (std::vector<Wake>{Wake::kDeadlock}));
}

TEST_P(SchedulerTest, OneRankAloneThatParksIsADeadlock) {
  World world({.ranks = 1, .on = GetParam()});
  world.run(
      [&](int rank) { EXPECT_EQ(world.scheduler.park(rank, says("nobody")), Wake::kDeadlock); });
  EXPECT_EQ(world.stops.size(), 1U);
}

TEST_P(SchedulerTest, TheStepBoundEndsARunThatOnlyHandsOver) {
  World world({.ranks = 3, .max_hand_overs = 10, .on = GetParam()});
  world.run([&](int rank) {
    if (rank == 0) {
      EXPECT_EQ(world.scheduler.park(0, says("never")), Wake::kStepBound);
      return;
    }
    while (!world.scheduler.stopped()) world.scheduler.yield(rank);
  });
  EXPECT_EQ(world.stops, (std::vector<Wake>{Wake::kStepBound}));
  const auto stuck = world.recorded<Stuck>();
  ASSERT_EQ(stuck.size(), 1U);
  EXPECT_TRUE(stuck[0].step_bound);
  EXPECT_EQ(stuck[0].ranks[0].state, "waits");
  EXPECT_EQ(stuck[0].ranks[1].state, "runs");
  EXPECT_LE(world.scheduler.hand_overs(), 10 + 3 + 1) << "the bound, one each to unwind";
}

TEST_P(SchedulerTest, APollingRankDoesNotKeepTheBatonUnderPriorities) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    World world({.ranks = 2,
                 .schedule = {.policy = SchedulePolicy::kPriority, .seed = seed},
                 .max_hand_overs = 50,
                 .on = GetParam()});
    bool there = false;
    world.run([&](int rank) {
      if (rank == 0) {
        while (!there && !world.scheduler.stopped()) world.scheduler.poll(0);
      } else {
        world.scheduler.yield(1);
        there = true;
      }
    });
    EXPECT_TRUE(world.stops.empty()) << "seed " << seed;
  }
}

// Ranks that yield, park and wake each other by a program of their own random numbers.
Ints SchedulerTest::mixed_run(Schedule schedule) {
  World world({.ranks = 4, .schedule = std::move(schedule), .on = GetParam()});
  Ints order;
  std::vector<bool> parked(4);
  world.run([&](int rank) {
    Random random(static_cast<std::uint64_t>(rank));
    for (int i = 0; i < 30; ++i) {
      order.push_back(rank);
      const int other = static_cast<int>(random.below(4));
      if (parked[static_cast<std::size_t>(other)]) {
        parked[static_cast<std::size_t>(other)] = false;
        world.scheduler.unpark(other);
      }
      if (random.chance(40)) {
        parked[static_cast<std::size_t>(rank)] = true;
        if (world.scheduler.park(rank, says("a turn")) != Wake::kGo) order.push_back(100 + rank);
      } else {
        world.scheduler.yield(rank);
      }
    }
  });
  order.push_back(world.scheduler.hand_overs());
  return order;
}

TEST_P(SchedulerTest, TheSameScheduleGivesTheSameOrderFiftyTimesUnderLoad) {
  std::atomic<bool> end{false};
  std::vector<std::thread> load;
  for (int i = 0; i < 4; ++i) {
    load.emplace_back([&end] {
      while (!end.load(std::memory_order_relaxed)) {
      }
    });
  }
  for (const SchedulePolicy policy :
       {SchedulePolicy::kRoundRobin, SchedulePolicy::kRandom, SchedulePolicy::kPriority}) {
    const Schedule schedule{
        .policy = policy, .seed = 11, .change_points = 3, .delays = {0, 2, 0, 5}};
    const Ints first = mixed_run(schedule);
    for (int run = 1; run < 50; ++run) {
      if (mixed_run(schedule) != first) {
        ADD_FAILURE() << "run " << run << " of policy " << static_cast<int>(policy) << " differs";
        break;
      }
    }
  }
  end = true;
  for (std::thread& thread : load) thread.join();
}

TEST_P(SchedulerTest, WhatARankWaitsForIsAskedOnlyWhereTheRunStops) {
  World world({.ranks = 2, .on = GetParam()});
  Strings asked;
  const auto park = [&](int rank, const std::string& what) {
    return world.scheduler.park(rank, [&] {
      asked.push_back(what);
      return what;
    });
  };
  world.run([&](int rank) {
    EXPECT_EQ(rank == 0 ? park(0, "rank 1") : Wake::kGo, Wake::kGo);
    world.scheduler.unpark(0);
    EXPECT_TRUE(asked.empty());
    EXPECT_EQ(park(rank, "nobody " + std::to_string(rank)), Wake::kDeadlock);
    EXPECT_EQ(park(rank, "after the stop"), Wake::kDeadlock);
  });
  EXPECT_EQ(asked, (Strings{"nobody 0", "nobody 1"}));
}

TEST_P(SchedulerTest, ARankThatWasUnparkedButHasNotRunIsToldOfTheStop) {
  World world({.ranks = 2, .max_hand_overs = 2, .on = GetParam()});
  world.run([&](int rank) {
    if (rank == 0) {
      EXPECT_EQ(world.scheduler.park(0, says("rank 1")), Wake::kStepBound);
    } else {
      world.scheduler.yield(1);  // the second hand-over: nobody else can run
      world.scheduler.unpark(0);
      world.scheduler.yield(1);
    }
  });
  EXPECT_EQ(world.stops, (std::vector<Wake>{Wake::kStepBound}));
}

using SchedulerDeathTest = SchedulerTest;

INSTANTIATE_TEST_SUITE_P(, SchedulerDeathTest,
                         testing::Values(RanksOn::kThreads, RanksOn::kFibers));

TEST_P(SchedulerDeathTest, HandingOverForARankThatDoesNotRunIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  World world({.ranks = 2, .on = GetParam()});
  EXPECT_DEATH(world.run([&](int rank) { world.scheduler.yield(1 - rank); }),
               "rank 1 does not hold the baton");
}

TEST(ThreadSchedulerDeathTest, ARankThatEntersTwiceIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ThreadScheduler scheduler(1, {}, [](Wake, const std::vector<Scheduler::RankView>&) {});
        scheduler.enter(0);
        scheduler.enter(0);
      },
      "rank 0 entered twice");
}

}  // namespace
}  // namespace shardfuzz
