#include "harness/collective/hub.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "harness/collective/test_world.h"

namespace shardfuzz {
namespace {

// A call of `count` ints; the kind makes the pairing visible.
Call call_of(const std::string& kind, std::int64_t count) {
  return {.kind = kind, .dtype = "int32", .count = count, .bytes = 4 * count};
}

// Buffers of one rank in one all-gather, and its life in the hub.
struct Gather {
  Gather(World& world, int rank, Ints values)
      : Gather(world, rank, std::move(values), world.all, rank) {}
  Gather(World& world, int rank, Ints values, const ProcessGroupId& group, int member)
      : world(world),
        rank(rank),
        group(group),
        member(member),
        input(std::move(values)),
        output(input.size() * group.members.size(), 0) {
    std::copy(input.begin(), input.end(), output.begin() + member * static_cast<int>(input.size()));
  }

  Gather& launch(const std::string& kind = "all_gather") {
    return launch(call_of(kind, static_cast<std::int64_t>(input.size())));
  }
  Gather& launch(Call call) {
    ticket =
        world.hub.launch(group, member, std::move(call),
                         std::make_unique<IntTransfer>(IntTransfer::Plan{&input, &output, member}));
    return *this;
  }
  Gather& wait() {
    world.hub.wait(ticket);
    return *this;
  }

  World& world;
  int rank;
  const ProcessGroupId& group;
  int member;
  Ints input, output;
  Hub::Ticket ticket;
};

World::Options late(int ranks) {
  return {.ranks = ranks, .schedule = {.delivery = Delivery::kLate}};
}

// One line a Launch: "rank kind sequence".
Strings launches_of(const World& world) {
  Strings lines;
  for (const Launch& launch : world.recorded<Launch>()) {
    lines.push_back(fmt::format("{} {} {}", launch.call.rank, launch.call.kind, launch.sequence));
  }
  return lines;
}

// ---- H1: pairing by order -----------------------------------------------------------------------

TEST(HubH1, TheNthCollectiveOfARankMeetsTheNthOfTheOthers) {
  for (const Delivery delivery : {Delivery::kEarly, Delivery::kLate}) {
    World world({.ranks = 2, .schedule = {.delivery = delivery}});
    world.run([&](int rank) {
      const Ints first = Gather(world, rank, {10 + rank}).launch("one").wait().output;
      EXPECT_EQ(first, (Ints{10, 11}));
      const Ints second = Gather(world, rank, {20 + rank, 30 + rank}).launch("two").wait().output;
      EXPECT_EQ(second, (Ints{20, 30, 21, 31}));
    });
    EXPECT_TRUE(world.recorded<Mismatch>().empty());
    EXPECT_EQ(launches_of(world), (Strings{"0 one 0", "1 one 0", "0 two 1", "1 two 1"}));
  }
}

TEST(HubH1, DifferentKindsAtOnePlaceMeetAndDisagree) {
  World world({.ranks = 2});
  world.run([&](int rank) { Gather(world, rank, {1}).launch(rank == 0 ? "one" : "two").wait(); });
  const auto found = world.recorded<Mismatch>();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].calls[0].kind, "one");
  EXPECT_EQ(found[0].calls[1].kind, "two");
  EXPECT_EQ(found[0].calls[1].rank, 1);
}

TEST(HubH1, TwoGroupsCountForThemselves) {
  World world({.ranks = 4});
  const ProcessGroupId rows[] = {{"rows", "shard", {0, 1}}, {"rows", "shard", {2, 3}}};
  const ProcessGroupId columns[] = {{"columns", "replicate", {0, 2}},
                                    {"columns", "replicate", {1, 3}}};
  world.run([&](int rank) {
    // Rank 0 and 1 meet in their row twice before anyone meets in a column.
    const ProcessGroupId& row = rows[rank / 2];
    const ProcessGroupId& column = columns[rank % 2];
    Gather in_row(world, rank, {rank}, row, rank % 2);
    Gather in_column(world, rank, {10 * rank}, column, rank / 2);
    in_row.launch();
    in_column.launch();
    in_column.wait();
    in_row.wait();
    EXPECT_EQ(in_row.output, (Ints{2 * (rank / 2), 2 * (rank / 2) + 1}));
    EXPECT_EQ(in_column.output, (Ints{10 * (rank % 2), 10 * (rank % 2 + 2)}));
  });
  // One key, two sets of members: they are two groups, and each starts at 0.
  for (const Launch& launch : world.recorded<Launch>()) EXPECT_EQ(launch.sequence, 0);
  EXPECT_TRUE(world.recorded<Mismatch>().empty());
}

TEST(HubH1, AGroupOfOneMeetsItself) {
  World world({.ranks = 1});
  world.run(
      [&](int rank) { EXPECT_EQ(Gather(world, rank, {7}).launch().wait().output, (Ints{7})); });
}

// ---- H2: count 0 --------------------------------------------------------------------------------

TEST(HubH2, CountZeroCompletesLocallyAndTakesNoPlace) {
  World world({.ranks = 2});
  world.run([&](int rank) {
    if (rank == 0) {
      Gather empty(world, rank, {});
      empty.launch("empty");
      EXPECT_TRUE(world.hub.is_complete(empty.ticket));
      empty.wait();
    }
    EXPECT_EQ(Gather(world, rank, {rank}).launch().wait().output, (Ints{0, 1}));
  });
  EXPECT_EQ(launches_of(world), (Strings{"0 empty -1", "0 all_gather 0", "1 all_gather 0"}));
  EXPECT_EQ(world.recorded<Delivered>().size(), 2U);
}

TEST(HubH2, CountZeroOnOneRankShiftsThePairingOfAllThatFollow) {
  World world({.ranks = 2});
  world.run([&](int rank) {
    Gather(world, rank, rank == 0 ? Ints{1} : Ints{}).launch("first").wait();
    Gather(world, rank, {2}).launch("second").wait();
  });
  const auto found = world.recorded<Mismatch>();
  ASSERT_EQ(found.size(), 1U) << "rank 0's first meets rank 1's second";
  EXPECT_EQ(found[0].calls[0].kind, "first");
  EXPECT_EQ(found[0].calls[1].kind, "second");
  EXPECT_EQ(world.stops, (std::vector<Wake>{Wake::kDeadlock})) << "rank 0's second meets nobody";
}

// ---- H3: parking --------------------------------------------------------------------------------

TEST(HubH3, ARankThatWaitsForAPeerIsParkedAndTheOtherRuns) {
  for (const Delivery delivery : {Delivery::kEarly, Delivery::kLate}) {
    World world({.ranks = 2, .schedule = {.delivery = delivery}});
    world.run([&](int rank) {
      for (int i = 0; rank == 1 && i < 4; ++i) {
        world.log(1, "works");
        world.scheduler.yield(1);
      }
      Gather gather(world, rank, {rank});
      gather.launch();
      world.log(rank, "waits");
      gather.wait();
      world.log(rank, "goes on");
      EXPECT_EQ(gather.output, (Ints{0, 1}));
    });
    EXPECT_EQ(world.lines, (Strings{"1 works", "0 waits", "1 works", "1 works", "1 works",
                                    "1 waits", "0 goes on", "1 goes on"}));
    EXPECT_TRUE(world.stops.empty());
  }
}

TEST(HubH3, EveryMemberThatIsParkedGoesOnWhenTheLastHasLaunched) {
  for (const SchedulePolicy policy :
       {SchedulePolicy::kRoundRobin, SchedulePolicy::kRandom, SchedulePolicy::kPriority}) {
    World world({.ranks = 4, .schedule = {.policy = policy, .seed = 2, .delays = {0, 0, 0, 40}}});
    world.run([&](int rank) {
      for (int round = 0; round < 3; ++round) {
        for (int i = 0; rank == round && i < 20; ++i) world.scheduler.yield(rank);  // the slow one
        EXPECT_EQ(Gather(world, rank, {rank}).launch().wait().output, (Ints{0, 1, 2, 3}));
      }
    });
    EXPECT_TRUE(world.stops.empty());
    EXPECT_TRUE(world.lines.empty());
  }
}

TEST(HubH3, SeveralLaunchesBeforeTheWaitsCompleteInAnyOrderOfWaits) {
  for (const Delivery delivery : {Delivery::kEarly, Delivery::kLate}) {
    World world({.ranks = 2, .schedule = {.delivery = delivery}});
    world.run([&](int rank) {
      Gather a(world, rank, {rank}), b(world, rank, {10 + rank}), c(world, rank, {20 + rank});
      a.launch("a");
      b.launch("b");
      c.launch("c");
      for (Gather* gather : rank == 0 ? std::vector{&c, &a, &b} : std::vector{&b, &c, &a}) {
        gather->wait();
      }
      EXPECT_EQ(a.output, (Ints{0, 1}));
      EXPECT_EQ(b.output, (Ints{10, 11}));
      EXPECT_EQ(c.output, (Ints{20, 21}));
    });
    EXPECT_TRUE(world.stops.empty());
  }
}

TEST(HubH3, AWaitThatIsRepeatedChangesNothingAndIsRecordedOnce) {
  for (const Delivery delivery : {Delivery::kEarly, Delivery::kLate}) {
    World world({.ranks = 2, .schedule = {.delivery = delivery}});
    world.run([&](int rank) {
      Gather gather(world, rank, {rank});
      gather.launch().wait();
      gather.output[0] = 99;  // the caller's own use of its buffer
      gather.wait();
      EXPECT_EQ(gather.output, (Ints{99, 1}));
    });
    EXPECT_EQ(world.recorded<Delivered>().size(), 2U);
  }
}

TEST(HubH3, ARankMayEndWithoutWaitingForWhatItLaunched) {
  World world({.ranks = 2});
  world.run([&](int rank) {
    Gather gather(world, rank, {rank});
    gather.launch();
    if (rank == 1) return;
    EXPECT_EQ(gather.wait().output, (Ints{0, 1}));
  });
  EXPECT_TRUE(world.stops.empty());
}

TEST(HubH3, ARankThatAsksUntilItIsCompleteLetsTheOthersRunAndThenHasItsOutput) {
  for (const SchedulePolicy policy :
       {SchedulePolicy::kRoundRobin, SchedulePolicy::kRandom, SchedulePolicy::kPriority}) {
    for (const Delivery delivery : {Delivery::kEarly, Delivery::kLate}) {
      World world({.ranks = 2,
                   .schedule = {.policy = policy, .seed = 1, .delivery = delivery},
                   .max_hand_overs = 100});
      world.run([&](int rank) {
        Gather gather(world, rank, {rank});
        gather.launch();
        while (!world.hub.is_complete(gather.ticket)) world.log(rank, "asks");
        EXPECT_EQ(gather.output, (Ints{0, 1}));
      });
      EXPECT_TRUE(world.stops.empty());
    }
  }
}

// ---- H4: disagreement ---------------------------------------------------------------------------

// Two ranks, the second of which changes its call; the outputs after the wait.
std::vector<Ints> outputs_where_rank_1_brings(Call call, Delivery delivery) {
  World world({.ranks = 2, .schedule = {.delivery = delivery}});
  std::vector<Ints> outputs(2);
  world.run([&](int rank) {
    Gather gather(world, rank, {10 + rank, 20 + rank});
    gather.launch(rank == 1 ? call : call_of("all_gather", 2)).wait();
    outputs[static_cast<std::size_t>(rank)] = gather.output;
  });
  EXPECT_EQ(world.recorded<Mismatch>().size(), call == call_of("all_gather", 2) ? 0U : 1U);
  return outputs;
}

TEST(HubH4, EachFieldOnWhichRanksMustAgreePoisonsAllButTheOwnSlot) {
  const auto changed = [](auto change) {
    Call call = call_of("all_gather", 2);
    change(call);
    return call;
  };
  const std::vector<Call> calls{
      changed([](Call& c) { c.kind = "broadcast"; }), changed([](Call& c) { c.count = 3; }),
      changed([](Call& c) { c.dtype = "int64"; }), changed([](Call& c) { c.root = 1; }),
      changed([](Call& c) { c.reduce = "sum"; })};
  for (const Delivery delivery : {Delivery::kEarly, Delivery::kLate}) {
    EXPECT_EQ(outputs_where_rank_1_brings(call_of("all_gather", 2), delivery),
              (std::vector<Ints>{{10, 20, 11, 21}, {10, 20, 11, 21}}));
    for (const Call& call : calls) {
      EXPECT_EQ(outputs_where_rank_1_brings(call, delivery),
                (std::vector<Ints>{{10, 20, kPoison, kPoison}, {kPoison, kPoison, 11, 21}}));
    }
  }
}

TEST(HubH4, TheMismatchIsRecordedBeforeAnythingIsDelivered) {
  for (const Delivery delivery : {Delivery::kEarly, Delivery::kLate}) {
    World world({.ranks = 2, .schedule = {.delivery = delivery}});
    world.run([&](int rank) {
      Gather(world, rank, Ints(1 + static_cast<std::size_t>(rank), 5)).launch().wait();
    });
    Strings kinds;
    for (const Event& event : world.recorder.events()) {
      if (std::holds_alternative<Launch>(event.payload)) kinds.push_back("launch");
      if (std::holds_alternative<Mismatch>(event.payload)) kinds.push_back("mismatch");
      if (std::holds_alternative<Delivered>(event.payload)) kinds.push_back("delivered");
    }
    EXPECT_EQ(kinds, (Strings{"launch", "launch", "mismatch", "delivered", "delivered"}));
    const auto found = world.recorded<Mismatch>();
    EXPECT_EQ(found[0].calls[0].count, 1);
    EXPECT_EQ(found[0].calls[1].count, 2);
    EXPECT_EQ(found[0].process_group, "shard");
  }
}

TEST(HubH4, RanksGoOnAfterADisagreementAndMeetAgain) {
  World world({.ranks = 2});
  world.run([&](int rank) {
    Gather(world, rank, Ints(1 + static_cast<std::size_t>(rank), 5)).launch().wait();
    EXPECT_EQ(Gather(world, rank, {rank}).launch().wait().output, (Ints{0, 1}));
  });
  EXPECT_EQ(world.recorded<Mismatch>().size(), 1U);
  EXPECT_TRUE(world.stops.empty());
}

// ---- H5: early and late delivery ----------------------------------------------------------------

TEST(HubH5, EarlyDataAreThoseOfTheLaunchWhateverThePeerDoesThen) {
  World world({.ranks = 2});
  world.run([&](int rank) {
    Gather gather(world, rank, {rank});
    gather.launch();
    gather.input[0] = 77;  // too early: the code under test has a race here
    gather.wait();
    EXPECT_EQ(gather.output, (Ints{0, 1}));
  });
}

TEST(HubH5, LateDataAreThoseOfTheFirstWait) {
  World world(late(2));
  world.run([&](int rank) {
    Gather gather(world, rank, {rank});
    gather.launch();
    gather.input[0] = 77 + rank;  // the race shows, for the rank that is first to wait
    gather.wait();
    EXPECT_EQ(gather.output, (Ints{77, 1}));
  });
}

TEST(HubH5, AfterItsOwnWaitARankMayChangeItsInputAndNobodySeesIt) {
  for (const Delivery delivery : {Delivery::kEarly, Delivery::kLate}) {
    for (const int slow : {0, 1}) {
      World world({.ranks = 2, .schedule = {.delivery = delivery}});
      world.run([&](int rank) {
        Gather gather(world, rank, {rank});
        gather.launch();
        if (rank == slow) {  // waits long after the other has gone on
          for (int i = 0; i < 10; ++i) world.scheduler.yield(rank);
        }
        gather.wait();
        gather.input[0] = 77;
        EXPECT_EQ(gather.output, (Ints{0, 1})) << "slow rank " << slow;
      });
    }
  }
}

TEST(HubH5, EarlyOutputIsThereBeforeTheWaitAndLateOutputIsNot) {
  for (const Delivery delivery : {Delivery::kEarly, Delivery::kLate}) {
    World world({.ranks = 2, .schedule = {.delivery = delivery}});
    world.run([&](int rank) {
      Gather gather(world, rank, {10 + rank});
      gather.launch();
      if (rank == 1) {  // the last to launch
        EXPECT_EQ(gather.output, delivery == Delivery::kEarly ? (Ints{10, 11}) : (Ints{0, 11}));
      }
      gather.wait();
      EXPECT_EQ(gather.output, (Ints{10, 11}));
    });
  }
}

TEST(HubH5, InPlaceReductionsReadEveryInputBeforeAnyOutputIsWritten) {
  for (const Delivery delivery : {Delivery::kEarly, Delivery::kLate}) {
    World world({.ranks = 3, .schedule = {.delivery = delivery}});
    world.run([&](int rank) {
      Ints buffer{1 << rank, 10};
      const auto ticket = world.hub.launch(
          world.all, rank, call_of("all_reduce", 2),
          std::make_unique<IntTransfer>(IntTransfer::Plan{&buffer, &buffer, rank, true}));
      world.hub.wait(ticket);
      EXPECT_EQ(buffer, (Ints{7, 30}));
    });
  }
}

// ---- H6: nobody can go on -----------------------------------------------------------------------

TEST(HubH6, AStuckRunSaysWhoWaitsWhereAndWhoRaised) {
  World world({.ranks = 3});
  world.run([&](int rank) {
    for (int i = 0; rank == 1 && i < 3; ++i) world.scheduler.yield(rank);  // the others park
    Gather(world, rank, {rank}).launch().wait();
    if (rank == 1) throw std::runtime_error("a hook's error");
    if (rank == 2) return;
    Gather(world, rank, {rank}).launch().wait();
  });
  const auto stuck = world.recorded<Stuck>();
  ASSERT_EQ(stuck.size(), 1U);
  EXPECT_FALSE(stuck[0].step_bound);
  EXPECT_EQ(stuck[0].ranks,
            (std::vector<Stuck::Rank>{
                {0, "waits", "all_gather 1 of group shard"}, {1, "raised", ""}, {2, "done", ""}}));
  EXPECT_EQ(world.lines,
            (Strings{"1 throws a hook's error",
                     "0 throws shardfuzz: no rank can go on; this rank's collective will never "
                     "complete"}));
}

TEST(HubH6, EveryWaitAndEveryLaterLaunchThrowsStuckError) {
  World world({.ranks = 3});
  world.run([&](int rank) {
    if (rank == 2) return;
    Gather first(world, rank, {rank}), second(world, rank, {rank});
    first.launch();
    second.launch();
    EXPECT_THROW(first.wait(), StuckError);
    EXPECT_THROW(first.wait(), StuckError) << "again";
    EXPECT_THROW(second.wait(), StuckError);
    EXPECT_THROW((void)world.hub.is_complete(second.ticket), StuckError);
    EXPECT_THROW(Gather(world, rank, {rank}).launch(), StuckError);
    EXPECT_THROW(Gather(world, rank, {}).launch(), StuckError) << "count 0 too";
    world.log(rank, "unwinds");
  });
  EXPECT_EQ(world.lines, (Strings{"0 unwinds", "1 unwinds"}));
  EXPECT_EQ(world.stops.size(), 1U);
}

TEST(HubH6, WhatWasCompleteBeforeTheEndCanStillBeWaitedFor) {
  for (const Delivery delivery : {Delivery::kEarly, Delivery::kLate}) {
    World world({.ranks = 2, .schedule = {.delivery = delivery}});
    Gather complete[] = {{world, 0, {0}}, {world, 1, {1}}};  // buffers outlive the rank that ends
    world.run([&](int rank) {
      complete[rank].launch();
      if (rank == 1) return;
      EXPECT_THROW(Gather(world, rank, {5}).launch().wait(), StuckError);
      EXPECT_EQ(complete[rank].wait().output, (Ints{0, 1}));
    });
  }
}

TEST(HubH6, RanksThatWaitForEachOtherInTwoGroupsAreStuck) {
  World world({.ranks = 2});
  const ProcessGroupId other{"other", "replicate", {0, 1}};
  world.run([&](int rank) {
    Gather in_all(world, rank, {rank}), in_other(world, rank, {rank}, other, rank);
    Gather& first = rank == 0 ? in_all : in_other;
    first.launch();
    EXPECT_THROW(first.wait(), StuckError);
  });
  const auto stuck = world.recorded<Stuck>();
  ASSERT_EQ(stuck.size(), 1U);
  EXPECT_EQ(stuck[0].ranks[0].waits_for, "all_gather 0 of group shard");
  EXPECT_EQ(stuck[0].ranks[1].waits_for, "all_gather 0 of group replicate");
}

TEST(HubH6, RanksThatHandOverWithoutEndHitTheStepBound) {
  World world({.ranks = 2, .max_hand_overs = 50});
  world.run([&](int rank) {
    while (true) Gather(world, rank, {rank}).launch().wait();
  });
  const auto stuck = world.recorded<Stuck>();
  ASSERT_EQ(stuck.size(), 1U);
  EXPECT_TRUE(stuck[0].step_bound);
  EXPECT_EQ(world.lines.size(), 2U) << "both ranks unwound";
}

TEST(HubH6, AskingForeverHitsTheStepBoundAndThrows) {
  World world({.ranks = 2, .max_hand_overs = 50});
  world.run([&](int rank) {
    if (rank == 1) return;
    Gather gather(world, rank, {rank});
    gather.launch();
    EXPECT_THROW(while (!world.hub.is_complete(gather.ticket)){}, StuckError);
  });
  EXPECT_EQ(world.stops, (std::vector<Wake>{Wake::kStepBound}));
}

// A transfer whose output cannot be written.
class BrokenTransfer : public IntTransfer {
 public:
  using IntTransfer::IntTransfer;
  void give_output(const std::vector<const Transfer*>&) override {
    throw std::runtime_error("no room");
  }
};

TEST(Hub, ATransferThatThrowsEndsItsRankAndLeavesNobodyParked) {
  for (const Delivery delivery : {Delivery::kEarly, Delivery::kLate}) {
    World world({.ranks = 2, .schedule = {.delivery = delivery}});
    world.run([&](int rank) {
      if (rank == 0) {
        EXPECT_EQ(Gather(world, rank, {rank}).launch().wait().output, (Ints{0, 1}));
        return;
      }
      Ints input{1}, output(2);
      const auto ticket = world.hub.launch(
          world.all, rank, call_of("all_gather", 1),
          std::make_unique<BrokenTransfer>(IntTransfer::Plan{&input, &output, rank}));
      world.hub.wait(ticket);
    });
    EXPECT_EQ(world.lines, (Strings{"1 throws no room"}));
    EXPECT_TRUE(world.stops.empty());
  }
}

// ---- determinism --------------------------------------------------------------------------------

std::string events_of_a_busy_run(Schedule schedule, RanksOn on = RanksOn::kThreads) {
  World world({.ranks = 4, .schedule = std::move(schedule), .on = on});
  const ProcessGroupId halves[] = {{"half", "shard", {0, 1}}, {"half", "shard", {2, 3}}};
  world.run([&](int rank) {
    for (int round = 0; round < 6; ++round) {
      world.recorder.set_place(rank, round, 0, "forward");
      Gather wide(world, rank, {rank, round}),
          narrow(world, rank, {round}, halves[rank / 2], rank % 2);
      wide.launch("wide");
      narrow.launch("narrow");
      (round % 2 == 0 ? narrow : wide).wait();
      (round % 2 == 0 ? wide : narrow).wait();
      if (round == 5 && rank == 3) throw std::runtime_error("at the end");
    }
    Gather(world, rank, {1}).launch("last").wait();
  });
  std::string text;
  for (const Event& event : world.recorder.events()) {
    text +=
        fmt::format("{} {} {} {}\n", event.index, event.rank, event.step, event.payload.index());
  }
  for (const std::string& line : world.lines) text += line + "\n";
  return text;
}

TEST(Hub, FibersGiveTheEventsOfThreads) {
  for (const SchedulePolicy policy :
       {SchedulePolicy::kRoundRobin, SchedulePolicy::kRandom, SchedulePolicy::kPriority}) {
    for (const Delivery delivery : {Delivery::kEarly, Delivery::kLate}) {
      const Schedule schedule{.policy = policy,
                              .seed = 5,
                              .change_points = 3,
                              .delivery = delivery,
                              .delays = {4, 0, 1, 0}};
      const std::string events = events_of_a_busy_run(schedule, RanksOn::kFibers);
      EXPECT_EQ(events, events_of_a_busy_run(schedule));
      EXPECT_NE(events.find("0 throws shardfuzz: no rank can go on"), std::string::npos) << events;
    }
  }
}

TEST(Hub, TheSameScheduleGivesTheSameEventsFiftyTimesUnderLoad) {
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
        .policy = policy, .seed = 5, .change_points = 3, .delays = {4, 0, 1, 0}};
    const std::string first = events_of_a_busy_run(schedule);
    for (int run = 1; run < 50; ++run) {
      const std::string again = events_of_a_busy_run(schedule);
      EXPECT_EQ(again, first) << "run " << run;
      if (again != first) break;
    }
  }
  end = true;
  for (std::thread& thread : load) thread.join();
}

}  // namespace
}  // namespace shardfuzz
