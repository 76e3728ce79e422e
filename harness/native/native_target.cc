#include "harness/native/native_target.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "harness/base/check.h"
#include "harness/case/case_names.h"
#include "harness/collective/hub.h"
#include "harness/native/program.h"
#include "harness/native/py_error.h"
#include "harness/native/reference.h"
#include "harness/native/sim_comm.h"

namespace shardfuzz::native {
namespace {

constexpr std::string_view kStuckText = "shardfuzz: no rank can go on";

// One rank's run: what it raises is an event, as in the Python rank program.
class Rank {
 public:
  Rank(const Case& c, int rank, FullData* data, Hub* hub, Recorder* recorder,
       const Planted& planted)
      : comm_(c.mesh, rank, hub),
        observer_(rank, recorder),
        hub_(hub),
        program_(std::make_unique<RankProgram>(c, rank, data, &comm_, &observer_, planted)) {}

  void run() {
    try {
      program_->run();
      return;
    } catch (const PyError& error) {
      raised_ = {.type = error.type(), .message = error.what(), .where = error.where()};
    } catch (const c10::Error& error) {
      // Of the views that the native target makes, only the one of the gathered tensor can fail.
      raised_ = {.type = "RuntimeError",
                 .message = error.what_without_backtrace(),
                 .where = "_ops.py:__call__"};
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

  SimComm comm_;
  Observer observer_;
  Hub* hub_;
  std::unique_ptr<RankProgram> program_;
  bool failed_ = false;
  Raised raised_;
};

std::optional<std::string> unsupported_call(const Case& c, const GroupSpec& group,
                                            const ParamSpec& param) {
  const bool is_fp8 = param.pack == "torchao_moe_fp8" && param.call == CallPath::kGroupedMm;
  const auto dtype = group.mixed_precision.param_dtype.value_or(param.dtype);
  if (param.call == CallPath::kMul) return std::nullopt;
  if (c.batch.values != DataKind::kInteger && !is_fp8) return "a matrix product of normal data";
  if (param.call == CallPath::kLinear || param.call == CallPath::kBmm) return std::nullopt;
  // torch._grouped_mm refuses rows that are no multiple of 16 bytes, torchao token groups that are
  // no multiple of 16 and batches without tokens.
  const std::int64_t rows = std::int64_t{c.batch.tokens_per_expert} * c.batch.top_k;
  if (is_fp8 && rows % 16 != 0) return "token groups that are no multiple of 16";
  if (is_fp8 && dtype == DType::kFloat16) return "fp8 with fp16 around it";
  for (const std::size_t dim : {param.shape.size() - 2, param.shape.size() - 1}) {
    if (param.shape[dim] * element_bytes(dtype) % 16 != 0) return "rows that are not aligned";
  }
  const bool all_empty =
      rows == 0 || static_cast<std::int64_t>(c.batch.empty_experts.size()) >= param.shape[0] ||
      std::find(c.batch.tokens_by_rank.begin(), c.batch.tokens_by_rank.end(), 0) !=
          c.batch.tokens_by_rank.end();
  if (all_empty) return "a rank without tokens in a grouped product";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> unsupported(const Case& c) {
  if (c.environment.device != "cpu") return "device " + c.environment.device;
  for (const Operation& operation : operations_of(c)) {
    if (operation.kind == OpKind::kSave || operation.kind == OpKind::kLoad ||
        operation.kind == OpKind::kFullTensor) {
      return fmt::format("operation {}", name_of(operation.kind));
    }
  }
  for (const GroupSpec& group : c.groups) {
    for (const ParamSpec& param : group.params) {
      if (!weight_kind(param.pack, param.hook)) return "pack " + param.pack;
      if (param.dtype == DType::kFloat8E4M3 || param.dtype == DType::kUInt8) {
        return fmt::format("original dtype {}", name_of(param.dtype));
      }
      if (auto reason = unsupported_call(c, group, param)) return reason;
    }
  }
  return std::nullopt;
}

struct NativeTarget::State {
  Planted planted;
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
  Scheduler scheduler(world_size, c.schedule,
                      [&](Wake reason, const std::vector<Scheduler::RankView>& ranks) {
                        hub.record_stuck(reason, ranks);
                      });
  hub.set_scheduler(&scheduler);
  FullData data(c);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.push_back(std::make_unique<Rank>(c, rank, &data, &hub, &recorder, state_->planted));
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      scheduler.enter(rank);
      ranks[static_cast<std::size_t>(rank)]->run();
      scheduler.leave(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();

  const bool any_failed =
      std::any_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank->failed(); });
  if (!any_failed) {
    std::vector<std::unique_ptr<RankProgram>> programs;
    for (const auto& rank : ranks) programs.push_back(rank->take_program());
    check_reference(c, programs, &recorder);
  }
  return {.world_size = world_size, .mesh = c.mesh.shape, .events = recorder.take_events()};
}

}  // namespace shardfuzz::native
