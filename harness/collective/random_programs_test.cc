// Random programs of scheduler calls: both schedulers must run them in one order, and in the order
// in which kept cases were found.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/base/hash.h"
#include "harness/base/random.h"
#include "harness/collective/test_world.h"

namespace shardfuzz {
namespace {

constexpr std::uint64_t kProgramCount = 200;

enum class Action { kYield, kPoll, kPark, kUnparkOne, kUnparkAll };

struct Step {
  Action action = Action::kYield;
  int other = 0;  // of kUnparkOne
};

struct Program {
  Schedule schedule;
  int max_hand_overs = kMaxHandOvers;
  std::vector<std::vector<Step>> steps;  // by rank
};

std::vector<Step> random_steps(Random& random, int ranks, int park_percent) {
  std::vector<Step> steps(random.below(40));
  for (Step& step : steps) {
    if (random.chance(park_percent)) {
      step.action = Action::kPark;
    } else if (random.chance(50)) {
      step.action = random.chance(70) ? Action::kYield : Action::kPoll;
    } else {
      step.action = random.chance(50) ? Action::kUnparkOne : Action::kUnparkAll;
      step.other = static_cast<int>(random.below(static_cast<std::uint64_t>(ranks)));
    }
  }
  return steps;
}

Program random_program(std::uint64_t seed) {
  Random random(seed);
  const int ranks = static_cast<int>(random.between(1, 8));
  Program program;
  program.schedule.policy = static_cast<SchedulePolicy>(random.below(3));
  program.schedule.seed = random.next();
  program.schedule.change_points = static_cast<int>(random.below(5));
  for (int rank = 0; rank < ranks && random.chance(70); ++rank) {
    program.schedule.delays.push_back(static_cast<int>(random.below(6)));
  }
  if (random.chance(25)) program.max_hand_overs = static_cast<int>(random.below(60));
  const int park_percent = static_cast<int>(random.below(30));
  for (int rank = 0; rank < ranks; ++rank) {
    program.steps.push_back(random_steps(random, ranks, park_percent));
  }
  return program;
}

void take(World& world, int rank, const Step& step) {
  switch (step.action) {
    case Action::kYield:
      world.log(rank, "yields");
      world.scheduler.yield(rank);
      return;
    case Action::kPoll:
      world.log(rank, "polls");
      world.scheduler.poll(rank);
      return;
    case Action::kPark: {
      world.log(rank, "parks");
      const Wake wake = world.scheduler.park(rank, says("rank " + std::to_string(rank)));
      world.log(rank, "wakes " + std::to_string(static_cast<int>(wake)));
      return;
    }
    case Action::kUnparkOne:
      world.log(rank, "unparks " + std::to_string(step.other));
      world.scheduler.unpark(step.other);
      return;
    case Action::kUnparkAll:
      world.log(rank, "unparks all");
      for (const int other : world.all.members) world.scheduler.unpark(other);
      return;
  }
}

struct Outcome {
  Strings lines;  // "rank action", in the order in which it happened
  std::vector<Wake> stops;
  std::vector<Stuck> stuck;
  int hand_overs = 0;
  bool operator==(const Outcome&) const = default;
};

Outcome run(const Program& program, RanksOn on) {
  World world({.ranks = static_cast<int>(program.steps.size()),
               .schedule = program.schedule,
               .max_hand_overs = program.max_hand_overs,
               .on = on});
  world.run([&](int rank) {
    for (const Step& step : program.steps[static_cast<std::size_t>(rank)]) take(world, rank, step);
    world.log(rank, "ends");
  });
  return {.lines = world.lines,
          .stops = world.stops,
          .stuck = world.recorded<Stuck>(),
          .hand_overs = world.scheduler.hand_overs()};
}

std::string text_of(const Outcome& outcome) {
  std::string text;
  for (const std::string& line : outcome.lines) text += line + '\n';
  for (const Stuck& stuck : outcome.stuck) {
    text += stuck.step_bound ? "step bound\n" : "deadlock\n";
    for (const Stuck::Rank& rank : stuck.ranks) {
      text += fmt::format("{} {} {}\n", rank.rank, rank.state, rank.waits_for);
    }
  }
  return text + fmt::format("{} hand-overs\n", outcome.hand_overs);
}

TEST(RandomPrograms, ThreadsAndFibersGiveOneOrderAndOneStop) {
  for (std::uint64_t seed = 0; seed < kProgramCount; ++seed) {
    const Program program = random_program(seed);
    ASSERT_EQ(text_of(run(program, RanksOn::kFibers)), text_of(run(program, RanksOn::kThreads)))
        << "program " << seed;
  }
}

TEST(RandomPrograms, TheyEndInEveryWay) {
  int deadlocks = 0, bounds = 0, ends = 0;
  for (std::uint64_t seed = 0; seed < kProgramCount; ++seed) {
    const Outcome outcome = run(random_program(seed), RanksOn::kFibers);
    ASSERT_LE(outcome.stops.size(), 1U);
    const Wake how = outcome.stops.empty() ? Wake::kGo : outcome.stops[0];
    ++(how == Wake::kGo ? ends : how == Wake::kDeadlock ? deadlocks : bounds);
  }
  EXPECT_GT(ends, 30);
  EXPECT_GT(deadlocks, 30);
  EXPECT_GT(bounds, 20);
}

// Kept cases name a schedule: a change of any decision changes what they replay. The number was
// taken from the scheduler with which the first cases were found.
TEST(RandomPrograms, TheDecisionsAreThoseWithWhichKeptCasesWereFound) {
  std::string text;
  for (std::uint64_t seed = 0; seed < kProgramCount; ++seed) {
    text += text_of(run(random_program(seed), RanksOn::kFibers));
  }
  EXPECT_EQ(hex64(hash_bytes(text)), "e12041ca8bbad88c");
}

}  // namespace
}  // namespace shardfuzz
