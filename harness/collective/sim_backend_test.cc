#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <ATen/ATen.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "harness/collective/sim_backend.h"
#include "harness/collective/test_world.h"

namespace shardfuzz {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor floats(std::initializer_list<float> values) {
  return at::tensor(std::vector<float>(values), at::kFloat);
}

std::string shown(const at::Tensor& tensor) {
  std::string text;
  const at::Tensor flat = tensor.to(at::kDouble).contiguous().view(-1);
  for (std::int64_t i = 0; i < flat.numel(); ++i)
    text += fmt::format("{} ", flat[i].item<double>());
  return text;
}

// Runs `body` as every rank of a world with one group of all ranks.
struct Ranks {
  explicit Ranks(int ranks, Delivery delivery = Delivery::kEarly)
      : world({.ranks = ranks, .schedule = {.delivery = delivery}}) {}
  void operator()(const std::function<void(SimBackend&, int)>& body) {
    set_current_hub(&world.hub);
    world.run([&](int rank) {
      const auto backend = c10::make_intrusive<SimBackend>(rank, world.all);
      body(*backend, rank);
    });
    set_current_hub(nullptr);
    EXPECT_EQ(world.lines, Strings{});
  }
  World world;
};

// Each operation on 1, 2 and 3 ranks, with early and late delivery.
void on_every_world(const std::function<void(SimBackend&, int rank, int ranks)>& body) {
  for (const int ranks : {1, 2, 3}) {
    for (const Delivery delivery : {Delivery::kEarly, Delivery::kLate}) {
      SCOPED_TRACE(fmt::format("{} ranks, delivery {}", ranks, static_cast<int>(delivery)));
      Ranks run(ranks, delivery);
      run([&](SimBackend& backend, int rank) { body(backend, rank, ranks); });
      EXPECT_TRUE(run.world.stops.empty());
      EXPECT_TRUE(run.world.recorded<Mismatch>().empty());
    }
  }
}

// ---- gathers ------------------------------------------------------------------------------------

TEST(SimBackend, AllGatherBaseConcatenatesTheRanksInOrderInEveryDtype) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kByte}) {
    on_every_world([dtype](SimBackend& backend, int rank, int ranks) {
      at::Tensor input = at::full({2, 2}, rank + 1, dtype);
      at::Tensor output = at::zeros({2 * ranks, 2}, dtype);
      backend._allgather_base(output, input, {})->wait();
      EXPECT_TRUE(
          at::equal(output, at::arange(1, ranks + 1).repeat_interleave(4).view({-1, 2}).to(dtype)))
          << shown(output);
    });
  }
}

TEST(SimBackend, AllGatherBaseTakesASliceOfItsOwnOutputAsFsdpDoes) {
  on_every_world([](SimBackend& backend, int rank, int ranks) {
    at::Tensor output = at::full({ranks * 3}, -1.0F);
    at::Tensor input = output.narrow(0, 3L * rank, 3);
    input.fill_(static_cast<float>(rank));
    backend._allgather_base(output, input, {})->wait();
    EXPECT_TRUE(at::equal(output, at::arange(ranks).repeat_interleave(3).to(at::kFloat)));
  });
}

TEST(SimBackend, AllGatherListFillsOneTensorARank) {
  on_every_world([](SimBackend& backend, int rank, int ranks) {
    Tensors inputs{floats({static_cast<float>(rank), 5})};
    std::vector<Tensors> outputs(1);
    for (int i = 0; i < ranks; ++i) outputs[0].push_back(at::zeros({2}));
    backend.allgather(outputs, inputs, {})->wait();
    for (int i = 0; i < ranks; ++i) {
      EXPECT_EQ(shown(outputs[0][static_cast<std::size_t>(i)]), fmt::format("{} 5 ", i));
    }
  });
}

TEST(SimBackend, AllGatherCoalescedGathersEachTensorByItself) {
  on_every_world([](SimBackend& backend, int rank, int ranks) {
    Tensors inputs{at::full({1}, rank + 1.0F), at::full({2, 2}, 10.0F * (rank + 1))};
    Tensors outputs{at::zeros({ranks}), at::zeros({2 * ranks, 2})};
    backend.allgather_into_tensor_coalesced(outputs, inputs, {})->wait();
    EXPECT_TRUE(at::equal(outputs[0], at::arange(1, ranks + 1).to(at::kFloat)));
    EXPECT_TRUE(at::equal(outputs[1].view(-1),
                          (at::arange(1, ranks + 1) * 10).repeat_interleave(4).to(at::kFloat)));
  });
}

// ---- reductions ---------------------------------------------------------------------------------

// What rank `rank` receives when rank r sends [r + 1, 10 (r + 1)] to every rank.
at::Tensor reduce_scattered(SimBackend& backend, int ranks, const c10d::ReduceOp& op) {
  const auto own = static_cast<float>(backend.getRank() + 1);
  at::Tensor input = floats({own, 10 * own}).repeat({ranks});
  at::Tensor output = at::zeros({2});
  c10d::ReduceScatterOptions options;
  options.reduceOp = op;
  backend._reduce_scatter_base(output, input, options)->wait();
  return output;
}

TEST(SimBackend, ReduceScatterSumAdds) {
  on_every_world([](SimBackend& backend, int, int ranks) {
    const float sum = static_cast<float>(ranks * (ranks + 1)) / 2;
    EXPECT_TRUE(
        at::equal(reduce_scattered(backend, ranks, c10d::ReduceOp::SUM), floats({sum, 10 * sum})));
  });
}

TEST(SimBackend, ReduceScatterAvgMultipliesByOneOverNBeforeItAdds) {
  on_every_world([](SimBackend& backend, int, int ranks) {
    const float factor = 1.0F / static_cast<float>(ranks);
    float first = 1 * factor, second = 10 * factor;
    for (int r = 1; r < ranks; ++r) {
      first += static_cast<float>(r + 1) * factor;
      second += 10 * static_cast<float>(r + 1) * factor;
    }
    EXPECT_TRUE(
        at::equal(reduce_scattered(backend, ranks, c10d::ReduceOp::AVG), floats({first, second})));
  });
}

TEST(SimBackend, ReduceScatterPremulSumMultipliesByTheFactorFirst) {
  on_every_world([](SimBackend& backend, int, int ranks) {
    const float sum = static_cast<float>(ranks * (ranks + 1)) / 2;
    EXPECT_TRUE(at::equal(reduce_scattered(backend, ranks, c10d::makeNCCLPreMulSum(0.25)),
                          floats({0.25F * sum, 2.5F * sum})));
    EXPECT_TRUE(at::equal(reduce_scattered(backend, ranks, c10d::makeNCCLPreMulSum(floats({0.5F}))),
                          floats({0.5F * sum, 5.0F * sum})));
  });
}

TEST(SimBackend, ReduceScatterGivesEachRankItsOwnSlice) {
  Ranks run(3);
  run([](SimBackend& backend, int rank) {
    at::Tensor input = floats({1, 2, 3}) + static_cast<float>(10 * rank);
    at::Tensor output = at::zeros({1});
    backend._reduce_scatter_base(output, input, {})->wait();
    EXPECT_EQ(shown(output), fmt::format("{} ", 30 + 3 * (rank + 1)));
  });
}

TEST(SimBackend, ReductionsAreDoneInTheDtypeOfTheTensor) {
  Ranks run(3);
  run([](SimBackend& backend, int rank) {
    // 256 + 1 + 1 is 256 in bfloat16 when added one by one.
    at::Tensor input = at::full({3}, rank == 0 ? 256.0 : 1.0, at::kBFloat16);
    at::Tensor output = at::zeros({1}, at::kBFloat16);
    backend._reduce_scatter_base(output, input, {})->wait();
    EXPECT_EQ(shown(output), "256 ");
  });
}

at::Tensor all_reduced(SimBackend& backend, const c10d::ReduceOp& op) {
  const auto rank = static_cast<float>(backend.getRank());
  Tensors tensors{floats({rank, -rank, 3})};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  backend.allreduce(tensors, options)->wait();
  return tensors[0];
}

TEST(SimBackend, AllReduceMinMaxSumAvgInPlace) {
  on_every_world([](SimBackend& backend, int, int ranks) {
    const auto last = static_cast<float>(ranks - 1);
    const float sum = last * static_cast<float>(ranks) / 2;
    EXPECT_TRUE(at::equal(all_reduced(backend, c10d::ReduceOp::MIN), floats({0, -last, 3})));
    EXPECT_TRUE(at::equal(all_reduced(backend, c10d::ReduceOp::MAX), floats({last, 0, 3})));
    EXPECT_TRUE(at::equal(all_reduced(backend, c10d::ReduceOp::SUM),
                          floats({sum, -sum, 3.0F * static_cast<float>(ranks)})));
    EXPECT_TRUE(at::allclose(all_reduced(backend, c10d::ReduceOp::AVG),
                             floats({sum, -sum, 3.0F * static_cast<float>(ranks)}) / ranks));
  });
}

TEST(SimBackend, AReductionThatIsNotModelledIsRefused) {
  Ranks run(1);
  run([](SimBackend& backend, int) {
    EXPECT_THROW(all_reduced(backend, c10d::ReduceOp::PRODUCT), c10::Error);
  });
}

// ---- from one rank to all -----------------------------------------------------------------------

TEST(SimBackend, BroadcastGivesTheRootsTensorWhateverTheShapes) {
  on_every_world([](SimBackend& backend, int rank, int ranks) {
    for (int root = 0; root < ranks; ++root) {
      // One shape a rank: a broadcast moves elements in memory order.
      Tensors tensors{at::arange(6).to(at::kFloat).add(100.0 * rank)};
      tensors[0] = rank % 2 == 0 ? tensors[0].view({2, 3}) : tensors[0].view({3, 2});
      c10d::BroadcastOptions options;
      options.rootRank = root;
      backend.broadcast(tensors, options)->wait();
      EXPECT_TRUE(at::equal(tensors[0].view(-1), at::arange(6).to(at::kFloat).add(100.0 * root)));
    }
  });
}

TEST(SimBackend, ScatterGivesEachRankItsTensorOfTheRootsList) {
  on_every_world([](SimBackend& backend, int rank, int ranks) {
    for (int root = 0; root < ranks; ++root) {
      Tensors outputs{at::zeros({2})};
      std::vector<Tensors> inputs;
      if (rank == root) {
        inputs.emplace_back();
        for (int i = 0; i < ranks; ++i) inputs[0].push_back(at::full({2}, 10.0F * root + i));
      }
      c10d::ScatterOptions options;
      options.rootRank = root;
      backend.scatter(outputs, inputs, options)->wait();
      EXPECT_EQ(shown(outputs[0]), fmt::format("{0} {0} ", 10 * root + rank));
    }
  });
}

TEST(SimBackend, BarrierLetsNobodyPassBeforeTheLastOneCame) {
  Ranks run(3);
  Strings lines;
  run([&](SimBackend& backend, int rank) {
    if (rank == 1) {
      for (int i = 0; i < 5; ++i) run.world.scheduler.yield(rank);
    }
    lines.push_back("comes");
    backend.barrier({})->wait();
    lines.push_back("passes");
  });
  EXPECT_EQ(lines, (Strings{"comes", "comes", "comes", "passes", "passes", "passes"}));
}

// ---- disagreement -------------------------------------------------------------------------------

TEST(SimBackend, AMismatchPoisonsAnAllGatherButForTheOwnSlot) {
  for (const Delivery delivery : {Delivery::kEarly, Delivery::kLate}) {
    Ranks run(3, delivery);
    run([](SimBackend& backend, int rank) {
      const std::int64_t rows = rank == 1 ? 1 : 2;
      at::Tensor output = at::full({3 * rows}, -1.0F);
      at::Tensor input = output.narrow(0, rows * rank, rows);
      input.fill_(static_cast<float>(rank));
      backend._allgather_base(output, input, {})->wait();
      const at::Tensor own = output.narrow(0, rows * rank, rows);
      EXPECT_TRUE(at::equal(own, at::full({rows}, static_cast<float>(rank)))) << shown(output);
      EXPECT_EQ(output.isnan().sum().item<std::int64_t>(), 2 * rows) << shown(output);
    });
    const auto found = run.world.recorded<Mismatch>();
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].calls[0].count, 2);
    EXPECT_EQ(found[0].calls[1].count, 1);
    EXPECT_EQ(found[0].calls[1].bytes, 4);
    EXPECT_EQ(found[0].calls[0].dtype, "Float");
  }
}

TEST(SimBackend, AMismatchPoisonsOtherOutputsWhole) {
  Ranks run(2);
  run([](SimBackend& backend, int rank) {
    at::Tensor input = at::ones({rank == 0 ? 2 : 4}), output = at::zeros({rank == 0 ? 1 : 2});
    backend._reduce_scatter_base(output, input, {})->wait();
    EXPECT_TRUE(output.isnan().all().item<bool>());
    Tensors bytes{at::zeros({2 + rank}, at::kByte)};
    backend.broadcast(bytes, {})->wait();
    EXPECT_TRUE(at::equal(bytes[0], at::full({2 + rank}, 0x5A, at::kByte)));
  });
  EXPECT_EQ(run.world.recorded<Mismatch>().size(), 2U);
}

TEST(SimBackend, ReductionAndRootAreAmongWhatRanksMustAgreeOn) {
  Ranks run(2);
  run([](SimBackend& backend, int rank) {
    all_reduced(backend, rank == 0 ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX);
    Tensors tensors{at::ones({1})};
    c10d::BroadcastOptions options;
    options.rootRank = rank;
    backend.broadcast(tensors, options)->wait();
  });
  const auto found = run.world.recorded<Mismatch>();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].calls[0].reduce, "sum");
  EXPECT_EQ(found[0].calls[1].reduce, "max");
  EXPECT_EQ(found[1].calls[1].root, 1);
}

// ---- work objects, records and refusals ---------------------------------------------------------

TEST(SimBackend, AnEmptyCollectiveCompletesWithoutThePeer) {
  Ranks run(2);
  run([](SimBackend& backend, int rank) {
    if (rank == 1) return;
    at::Tensor input = at::zeros({0, 4}), output = at::zeros({0, 4});
    const auto work = backend._allgather_base(output, input, {});
    EXPECT_TRUE(work->isCompleted());
    work->wait();
  });
  EXPECT_TRUE(run.world.stops.empty());
}

TEST(SimBackend, AWorkCanBeAskedSynchronizedAndTurnedIntoAFuture) {
  for (const Delivery delivery : {Delivery::kEarly, Delivery::kLate}) {
    Ranks run(2, delivery);
    run([](SimBackend& backend, int rank) {
      at::Tensor input = floats({static_cast<float>(rank)});
      Tensors outputs{at::zeros({2}), at::zeros({2}), at::zeros({2})};
      const auto asked = backend._allgather_base(outputs[0], input, {});
      const auto synchronized = backend._allgather_base(outputs[1], input, {});
      const auto future = backend._allgather_base(outputs[2], input, {});
      while (!asked->isCompleted()) {
      }
      synchronized->synchronize();
      EXPECT_TRUE(future->getFuture()->completed());
      for (const at::Tensor& output : outputs) EXPECT_EQ(shown(output), "0 1 ");
      EXPECT_EQ(asked->result().at(0).data_ptr(), outputs[0].data_ptr());
    });
  }
}

TEST(SimBackend, RecordsWhatEachRankBringsAndGets) {
  Ranks run(2);
  run([](SimBackend& backend, int) {
    at::Tensor input = at::full({4}, 2.0F), output = at::zeros({2});
    backend._reduce_scatter_base(output, input, {})->wait();
  });
  const auto launches = run.world.recorded<Launch>();
  ASSERT_EQ(launches.size(), 2U);
  EXPECT_EQ(launches[1].call, (Call{.rank = 1,
                                    .kind = "reduce_scatter",
                                    .dtype = "Float",
                                    .count = 2,
                                    .bytes = 8,
                                    .root = -1,
                                    .reduce = "sum"}));
  EXPECT_EQ(launches[0].digest, launches[1].digest) << "the same bytes";
  const auto delivered = run.world.recorded<Delivered>();
  ASSERT_EQ(delivered.size(), 2U);
  EXPECT_NE(delivered[0].digest, launches[0].digest);
}

TEST(SimBackend, ArgumentsThatNcclRefusesOnOneRankAreRefusedBeforeTheLaunch) {
  Ranks run(2);
  run([](SimBackend& backend, int rank) {
    at::Tensor two = at::zeros({2}), three = at::zeros({3}), half = at::zeros({4}, at::kHalf);
    EXPECT_THROW(backend._allgather_base(three, two, {}), c10::Error) << "sizes";
    EXPECT_THROW(backend._allgather_base(half, two, {}), c10::Error) << "types";
    EXPECT_THROW(backend._reduce_scatter_base(two, three, {}), c10::Error);
    Tensors one{two}, none, strided{at::zeros({4, 4}).t()};
    std::vector<Tensors> short_list{{two}}, long_list{{two, two}};
    EXPECT_THROW(backend.allgather(short_list, one, {}), c10::Error) << "one output for two ranks";
    EXPECT_THROW(backend.allgather_into_tensor_coalesced(none, none, {}), c10::Error);
    c10d::ScatterOptions scatter;
    EXPECT_THROW(backend.scatter(one, rank == 0 ? short_list : long_list, scatter), c10::Error);
    c10d::BroadcastOptions broadcast;
    broadcast.rootRank = 2;
    EXPECT_THROW(backend.broadcast(one, broadcast), c10::Error) << "no such root";
    EXPECT_THROW(backend.broadcast(strided, {}), c10::Error) << "not dense";
    EXPECT_THROW(backend.allreduce(strided, {}), c10::Error);
  });
  EXPECT_TRUE(run.world.recorded<Launch>().empty());
}

TEST(SimBackend, OtherOperationsSayThatTheyAreNotSupported) {
  Ranks run(1);
  run([](SimBackend& backend, int) {
    Tensors tensors{at::zeros({1})};
    EXPECT_THROW(backend.reduce(tensors, {}), c10::Error);
    EXPECT_THROW(backend.send(tensors, 0, 0), c10::Error);
  });
}

TEST(SimBackend, ACollectiveOutsideOfARunIsRefused) {
  SimBackend backend(0, {.key = "none", .name = "shard", .members = {0}});
  EXPECT_THROW(backend.barrier({}), c10::Error);
}

TEST(SimBackend, AStuckRunThrowsOutOfTheWait) {
  Ranks run(2);
  run([](SimBackend& backend, int rank) {
    if (rank == 1) return;
    EXPECT_THROW(backend.barrier({})->wait(), StuckError);
  });
  EXPECT_EQ(run.world.stops, (std::vector<Wake>{Wake::kDeadlock}));
}

}  // namespace
}  // namespace shardfuzz
