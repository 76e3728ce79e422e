// Hub: where the collectives of simulated ranks meet.
//
// It stands in for NCCL behind ProcessGroupNCCL (torch 2.11). Each rule and how it is known:
//  H1 Ranks pair by order: the n-th collective of a rank on a group meets the n-th of the others,
//     whatever they are. (NCCL has no names or tags; ProcessGroupNCCL counts `seqCollective_`.)
//  H2 A collective of count 0 completes locally and takes no place in the order. (NCCL returns at
//  once
//     for count 0, `enqueue.cc`; the next collective of that rank then meets the wrong partner.)
//  H3 wait() does not block the host on a GPU; here a rank that waits for a peer that has not
//  launched
//     is parked and another runs. What a host does after wait() without reading the data cannot be
//     told apart, except that a rank may raise earlier in real life than here; P3 reports both.
//  H4 Ranks that disagree on kind, count, dtype, root or reduction: NCCL does not check
//  (nccl#1417).
//     Here wait() returns and the outputs are poisoned, but for the caller's own slot of an
//     all-gather, which FSDP2 fills itself (its input is a slice of its output), so that the real,
//     later error of the code under test shows. Counts so near that NCCL finishes with a wrong tail
//     only (same chunk count) are a named limit of this model: it poisons them whole.
//  H5 Data may be taken at launch (Delivery::kEarly) or at the first wait that completes (kLate),
//  and
//     is given at once (early) or at each rank's own wait (late). Both are legal for NCCL. A rank
//     that asks and is told that its collective is complete has its output, as on a GPU.
//  H6 If no rank can go on, the run ends: Stuck is recorded with who waits where, and every wait
//  and
//     later launch throws StuckError. Real NCCL would hang until the watchdog (10 minutes).
// What ranks bring is compared, and a Mismatch recorded, before any byte is moved.
//
// Thread rule: all calls on the thread of the rank that holds the baton.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "harness/case/case.h"
#include "harness/collective/scheduler.h"
#include "harness/trace/recorder.h"

namespace shardfuzz {

// Thrown out of a wait or launch when nobody can go on. Its text is what the code under test sees.
class StuckError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The buffers of one rank in one collective. Implemented where tensors are known.
class Transfer {
 public:
  virtual ~Transfer() = default;
  [[nodiscard]] virtual std::string input_digest() const = 0;
  [[nodiscard]] virtual std::string output_digest() const = 0;
  virtual void take_input() = 0;  // copies the input, so that its owner may change it
  // Writes this rank's output from the inputs taken from all members (in member order).
  virtual void give_output(const std::vector<const Transfer*>& members) = 0;
  virtual void poison_output() = 0;
  // The rank has its output: lets go of its buffers, which are its own again. What was taken of the
  // input stays for members that have not got theirs.
  virtual void release_buffers() = 0;
};

struct ProcessGroupId {
  std::string key;           // unique in the process, together with the members
  std::string name;          // for people: "shard", "replicate", "world"
  std::vector<int> members;  // global ranks
};

class Hub {
 public:
  // The scheduler of the run is owned by the hub's caller and set before the ranks start.
  Hub(int world_size, Delivery delivery, Recorder* recorder);

  void set_scheduler(Scheduler* scheduler) { scheduler_ = scheduler; }

  struct Slot;
  struct Ticket {
    std::shared_ptr<Slot> slot;  // null: complete at launch (count 0)
    int member = -1;
    int rank = -1;
    std::int64_t sequence = -1;
  };

  Ticket launch(const ProcessGroupId& group, int member, Call call,
                std::unique_ptr<Transfer> transfer);
  void wait(const Ticket& ticket);  // throws StuckError
  // Asking is a hand-over: a rank that asks until it is so would else keep the baton for ever.
  bool is_complete(const Ticket& ticket);  // throws StuckError

  void note_raised(int rank) { raised_.at(static_cast<std::size_t>(rank)) = true; }

  // For Scheduler's on_stop.
  void record_stuck(Wake reason, const std::vector<Scheduler::RankView>& ranks);

 private:
  void settle(Slot& slot);
  void tell(const Ticket& ticket);
  void throw_if_stopped() const;

  const Delivery delivery_;
  Recorder* recorder_;
  Scheduler* scheduler_ = nullptr;
  std::vector<bool> raised_;
  struct GroupState {
    std::vector<std::int64_t> next_sequence;  // by member
    std::map<std::int64_t, std::shared_ptr<Slot>> open;
  };
  struct ByKeyAndMembers {  // a group may be renamed
    bool operator()(const ProcessGroupId& a, const ProcessGroupId& b) const {
      return std::tie(a.key, a.members) < std::tie(b.key, b.members);
    }
  };
  std::map<ProcessGroupId, GroupState, ByKeyAndMembers> groups_;
};

}  // namespace shardfuzz
