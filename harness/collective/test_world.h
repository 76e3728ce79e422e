// A world of simulated ranks for tests: ranks on threads or fibers, a scheduler, a hub and fake
// buffers of ints.
//
// Guarantees: `body` runs once for each rank, whatever it throws; threads start in reverse rank
// order, so that a test cannot pass by luck of thread start-up.
// Use:  World world({.ranks = 2});  world.run([&](int rank) { world.log(rank, "here"); });
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/collective/fiber_scheduler.h"
#include "harness/collective/hub.h"
#include "harness/collective/thread_scheduler.h"
#include "harness/trace/recorder.h"

namespace shardfuzz {

using Ints = std::vector<int>;
using Strings = std::vector<std::string>;

inline std::string text_of(const Ints& values) {
  std::string text;
  for (const int value : values) text += (text.empty() ? "" : " ") + std::to_string(value);
  return text;
}

// What a rank that parks says it waits for.
inline Scheduler::WaitsFor says(std::string text) {
  return [text = std::move(text)] { return text; };
}

enum class RanksOn { kThreads, kFibers };

inline constexpr int kPoison = -1;

// Gathers the members' ints (or adds them, where `adds`) into `output`.
class IntTransfer : public Transfer {
 public:
  struct Plan {
    Ints* input = nullptr;
    Ints* output = nullptr;
    int member = 0;
    bool adds = false;
  };
  explicit IntTransfer(Plan plan) : plan_(plan) {}

  std::string input_digest() const override { return text_of(*plan_.input); }
  std::string output_digest() const override { return text_of(*plan_.output); }
  void take_input() override {
    if (std::exchange(has_taken_, true)) return;
    taken_ = *plan_.input;
  }
  void give_output(const std::vector<const Transfer*>& members) override {
    Ints& output = *plan_.output;
    std::size_t at = 0;
    if (plan_.adds) output.assign(output.size(), 0);
    for (const Transfer* member : members) {
      if (plan_.adds) at = 0;
      for (const int value : static_cast<const IntTransfer*>(member)->taken_) {
        output.at(at) = plan_.adds ? output.at(at) + value : value;
        ++at;
      }
    }
  }
  void poison_output() override {
    const std::size_t slot = plan_.input->size();
    const std::size_t own = static_cast<std::size_t>(plan_.member) * slot;
    for (std::size_t i = 0; i < plan_.output->size(); ++i) {
      if (i < own || i >= own + slot) (*plan_.output)[i] = kPoison;
    }
  }
  void release_buffers() override { plan_.input = plan_.output = nullptr; }

 private:
  Plan plan_;
  Ints taken_;
  bool has_taken_ = false;
};

class World {
 public:
  struct Options {
    int ranks = 2;
    Schedule schedule;
    int max_hand_overs = kMaxHandOvers;
    RanksOn on = RanksOn::kThreads;
  };

  explicit World(Options options)
      : recorder(options.ranks),
        hub(options.ranks, options.schedule.delivery, &recorder),
        ranks_(options.ranks),
        threads_(options.on == RanksOn::kThreads
                     ? std::make_unique<ThreadScheduler>(options.ranks, options.schedule, on_stop(),
                                                         options.max_hand_overs)
                     : nullptr),
        fibers_(options.on == RanksOn::kFibers
                    ? std::make_unique<FiberScheduler>(&stacks_, options.ranks, options.schedule,
                                                       on_stop(), options.max_hand_overs)
                    : nullptr),
        scheduler(threads_ ? static_cast<Scheduler&>(*threads_) : *fibers_) {
    hub.set_scheduler(&scheduler);
    for (int rank = 0; rank < ranks_; ++rank) all.members.push_back(rank);
  }

  void run(const std::function<void(int)>& body) {
    const auto guarded = [&](int rank) {
      try {
        body(rank);
      } catch (const std::exception& error) {
        log(rank, std::string("throws ") + error.what());
        hub.note_raised(rank);
      }
    };
    if (fibers_) {
      fibers_->run(guarded);
      return;
    }
    std::vector<std::thread> threads;
    for (int rank = ranks_; rank-- > 0;) {
      threads.emplace_back([&, rank] {
        threads_->enter(rank);
        guarded(rank);
        threads_->leave(rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // By the rank that holds the baton.
  void log(int rank, const std::string& what) {
    lines.push_back(std::to_string(rank) + " " + what);
  }

  // The payloads of one kind, in order.
  template <typename Kind>
  std::vector<Kind> recorded() const {
    std::vector<Kind> found;
    for (const Event& event : recorder.events()) {
      if (const auto* payload = std::get_if<Kind>(&event.payload)) found.push_back(*payload);
    }
    return found;
  }

  Recorder recorder;
  Hub hub;
  ProcessGroupId all{.key = "all", .name = "shard"};
  Strings lines;
  std::vector<Wake> stops;

 private:
  Scheduler::OnStop on_stop() {
    return [this](Wake reason, const std::vector<Scheduler::RankView>& ranks) {
      stops.push_back(reason);
      hub.record_stuck(reason, ranks);
    };
  }

  int ranks_;
  FiberStacks stacks_;
  std::unique_ptr<ThreadScheduler> threads_;  // one of the two
  std::unique_ptr<FiberScheduler> fibers_;

 public:
  Scheduler& scheduler;
};

}  // namespace shardfuzz
