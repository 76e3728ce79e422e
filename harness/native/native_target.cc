#include "harness/native/native_target.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <algorithm>
#include <utility>
#include <vector>

#include "harness/base/check.h"
#include "harness/collective/fiber_scheduler.h"
#include "harness/collective/hub.h"
#include "harness/native/program.h"
#include "harness/native/py_error.h"
#include "harness/native/reference.h"
#include "harness/native/sim_comm.h"
#include "harness/native/supported.h"

namespace shardfuzz::native {
namespace {

constexpr std::string_view kStuckText = "shardfuzz: no rank can go on";

// One rank's run: what it raises is an event, as in the Python rank program.
class Rank {
 public:
  Rank(const Case& c, int rank, FullData* data, Gradients* gradients, Hub* hub, Recorder* recorder,
       const Planted& planted)
      : comm_(c.mesh, rank, hub, &watch_),
        observer_(rank, recorder, &watch_),
        hub_(hub),
        program_(
            std::make_unique<RankProgram>(c, rank, data, gradients, &comm_, &observer_, planted)) {}

  void run() {
    try {
      program_->run();
      return;
    } catch (const PyError& error) {
      raised_ = {.type = error.type(), .message = error.what(), .where = error.where()};
    }
    write_raised();
  }

  [[nodiscard]] bool failed() const { return failed_; }
  std::unique_ptr<RankProgram> take_program() { return std::move(program_); }

 private:
  void write_raised() {
    failed_ = true;
    if (const FsdpParam* current = observer_.current) {
      raised_.group = current->group_->name;
      raised_.param = current->spec_->name;
    }
    raised_.by_harness = raised_.message.starts_with(kStuckText);
    observer_.record(std::move(raised_));
    hub_->note_raised(observer_.rank());
  }

  BufferWatch watch_;
  SimComm comm_;
  Observer observer_;
  Hub* hub_;
  std::unique_ptr<RankProgram> program_;
  bool failed_ = false;
  Raised raised_;
};

}  // namespace

struct NativeTarget::State {
  Planted planted;
  FiberStacks stacks;
};

NativeTarget::NativeTarget(Planted planted) : state_(std::make_unique<State>()) {
  state_->planted = planted;
}
NativeTarget::~NativeTarget() = default;

Trace NativeTarget::run(const Case& c) {
  const auto reason = unsupported(c);
  SHARDFUZZ_CHECK(!reason, "the native target has no {}", *reason);
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const int world_size = c.mesh.world_size();
  Recorder recorder(world_size);
  Hub hub(world_size, c.schedule.delivery, &recorder);
  FiberScheduler scheduler(&state_->stacks, world_size, c.schedule,
                           [&](Wake reason, const std::vector<Scheduler::RankView>& ranks) {
                             hub.record_stuck(reason, ranks);
                           });
  hub.set_scheduler(&scheduler);
  FullData data(c);
  Gradients gradients(c);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.push_back(
        std::make_unique<Rank>(c, rank, &data, &gradients, &hub, &recorder, state_->planted));
  }
  scheduler.run([&](int rank) { ranks[static_cast<std::size_t>(rank)]->run(); });

  const bool any_failed =
      std::any_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank->failed(); });
  if (!any_failed) {
    std::vector<std::unique_ptr<RankProgram>> programs;
    for (const auto& rank : ranks) programs.push_back(rank->take_program());
    check_reference(c, programs, &gradients, &recorder);
  }
  return {.world_size = world_size, .mesh = c.mesh.shape, .events = recorder.take_events()};
}

}  // namespace shardfuzz::native
