#include <Python.h>
// Python.h comes first: it sets feature macros.
#include "harness/collective/sim_backend.h"

#include <ATen/ATen.h>

#include <functional>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>

#include "harness/base/hash.h"

namespace shardfuzz {
namespace {

Hub* current_hub = nullptr;
std::vector<BufferWatch>* current_watches = nullptr;

using Tensors = std::vector<at::Tensor>;

// A hand-over with the GIL held would stop every other rank for ever. torch's bindings release it
// for launches and wait(), but not for synchronize(), get_future() and is_completed()
// (c10d/init.cpp).
class WithoutGil {
 public:
  WithoutGil() {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) saved_ = PyEval_SaveThread();
  }
  ~WithoutGil() {
    if (saved_ != nullptr) PyEval_RestoreThread(saved_);
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* saved_ = nullptr;
};

Hub& hub_of_run() {
  TORCH_CHECK(current_hub != nullptr, "shardfuzz: a collective outside of a run");
  return *current_hub;
}

std::string digest_of(const Tensors& tensors) {
  std::uint64_t digest = 0;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor host = tensor.detach().contiguous().cpu();
    digest = combine(digest, tensor_digest(host.const_data_ptr(), host.nbytes()));
  }
  return hex64(digest);
}

// Poison: quiet NaNs with a payload of their own for floats, 0x5A for the rest; the same every
// time.
void poison(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return;
  if (tensor.is_floating_point()) {
    tensor.fill_(std::numeric_limits<double>::quiet_NaN());
  } else {
    tensor.fill_(0x5A);
  }
}

// Buffers as tensors, with the data movement of one kind of collective as a function.
class TensorTransfer : public Transfer {
 public:
  using Give = SimBackend::Give;
  using Poison = SimBackend::Poison;

  TensorTransfer(Tensors inputs, Tensors outputs, Give give, Poison poison, GroupStream* stream)
      : inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        give_(std::move(give)),
        poison_(std::move(poison)),
        lane_(std::make_shared<DeviceLane>(inputs_, outputs_, stream)) {}

  std::shared_ptr<const DeviceLane> lane() const { return lane_; }

  std::string input_digest() const override { return digest_of(inputs_); }
  std::string output_digest() const override {
    lane_->wait();
    return digest_of(outputs_);
  }

  void take_input() override {
    if (taken_) return;
    taken_ = true;
    at::NoGradGuard no_grad;
    const DeviceLane::Movement movement(lane_.get(), {lane_.get()});
    for (at::Tensor& input : inputs_) {
      movement.uses(input);
      input = input.detach().clone(at::MemoryFormat::Contiguous);
    }
  }

  void give_output(const std::vector<const Transfer*>& members) override {
    at::NoGradGuard no_grad;
    std::vector<const Tensors*> inputs;
    std::vector<DeviceLane*> lanes;
    for (const Transfer* member : members) {
      const auto* transfer = static_cast<const TensorTransfer*>(member);
      inputs.push_back(&transfer->inputs_);
      lanes.push_back(transfer->lane_.get());
    }
    const DeviceLane::Movement movement(lane_.get(), lanes);
    for (const Tensors* tensors : inputs) {
      for (const at::Tensor& input : *tensors) movement.uses(input);
    }
    for (const at::Tensor& output : outputs_) movement.uses(output);
    give_(outputs_, inputs);
  }

  void poison_output() override {
    at::NoGradGuard no_grad;
    const DeviceLane::Movement movement(lane_.get(), {lane_.get()});
    poison_(outputs_);
  }

  void release_buffers() override {
    outputs_.clear();
    if (!taken_) inputs_.clear();  // what was taken is a copy, for the other members
  }

 private:
  Tensors inputs_, outputs_;
  Give give_;
  Poison poison_;
  std::shared_ptr<DeviceLane> lane_;
  bool taken_ = false;
};

class SimWork : public c10d::Work {
 public:
  SimWork(Hub::Ticket ticket, int rank, c10d::OpType type, Tensors outputs,
          std::shared_ptr<const DeviceLane> lane)
      : Work(rank, type),
        ticket_(std::move(ticket)),
        outputs_(std::move(outputs)),
        lane_(std::move(lane)) {}

  bool wait(std::chrono::milliseconds /*timeout*/) override {
    synchronize();
    return true;
  }
  void synchronize() override {
    const WithoutGil no_gil;
    hub_of_run().wait(ticket_);
    lane_->wait();
  }
  bool isCompleted() override {
    const WithoutGil no_gil;
    return hub_of_run().is_complete(ticket_);
  }
  bool isSuccess() const override { return true; }
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    synchronize();
    future->markCompleted(at::IValue(outputs_));
    return future;
  }

 private:
  Hub::Ticket ticket_;
  Tensors outputs_;
  std::shared_ptr<const DeviceLane> lane_;
};

std::string name_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM: return "sum";
    case c10d::ReduceOp::AVG: return "avg";
    case c10d::ReduceOp::PREMUL_SUM: return "premul_sum";
    case c10d::ReduceOp::MIN: return "min";
    case c10d::ReduceOp::MAX: return "max";
    default: TORCH_CHECK(false, "shardfuzz's simulated process group has no such reduction");
  }
}

// The reduction of the members' tensors in member order, in their dtype.
at::Tensor reduced(const Tensors& inputs, const c10d::ReduceOp& op) {
  const auto count = static_cast<double>(inputs.size());
  double factor = 1.0;
  if (op.op_ == c10d::ReduceOp::AVG) factor = 1.0 / count;
  at::Tensor factor_tensor;
  if (op.op_ == c10d::ReduceOp::PREMUL_SUM) {
    const auto* supplement =
        reinterpret_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
    factor = supplement->double_factor;
    factor_tensor = supplement->tensor_factor;
  }
  const auto scaled = [&](const at::Tensor& tensor) {
    if (factor_tensor.defined()) return tensor.mul(factor_tensor);
    return factor == 1.0 ? tensor : tensor.mul(factor);
  };
  at::Tensor result = scaled(inputs[0]).clone();
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (op.op_ == c10d::ReduceOp::MIN) {
      result = at::minimum(result, inputs[i]);
    } else if (op.op_ == c10d::ReduceOp::MAX) {
      result = at::maximum(result, inputs[i]);
    } else {
      result.add_(scaled(inputs[i]));
    }
  }
  return result;
}

Call call_of(const char* kind, const at::Tensor& counted) {
  return {.kind = kind,
          .dtype = c10::toString(counted.scalar_type()),
          .count = counted.numel(),
          .bytes = static_cast<std::int64_t>(counted.nbytes())};
}

// Collectives move elements in memory order, whatever the shapes: that needs dense tensors alike.
void check_like(const at::Tensor& tensor, const at::Tensor& other) {
  TORCH_CHECK(tensor.dtype() == other.dtype() && tensor.numel() == other.numel(),
              "tensors of one collective must have the same type and size");
  TORCH_CHECK(tensor.is_contiguous() && other.is_contiguous(), "tensors must be contiguous");
}

void poison_all(Tensors& outputs) {
  for (at::Tensor& output : outputs) poison(output);
}

// Poisons an all-gather's output but for the slot that the caller filled itself (hub.h, H4).
void poison_other_slots(at::Tensor& output, std::int64_t slot_numel, int member) {
  const at::Tensor flat = output.view(-1);
  const std::int64_t from = slot_numel * member;
  const std::int64_t total = flat.numel();
  if (from > 0) poison(flat.narrow(0, 0, std::min(from, total)));
  if (from + slot_numel < total)
    poison(flat.narrow(0, from + slot_numel, total - from - slot_numel));
}

}  // namespace

void set_current_hub(Hub* hub) { current_hub = hub; }
void set_current_watches(std::vector<BufferWatch>* watches) { current_watches = watches; }

SimBackend::SimBackend(int member, ProcessGroupId group)
    : Backend(member, static_cast<int>(group.members.size())), group_(std::move(group)) {}

SimBackend::WorkPtr SimBackend::launch(Call call, Tensors inputs, const Tensors& outputs, Give give,
                                       Poison poison, c10d::OpType type,
                                       const Tensors& reduce_inputs) {
  const WithoutGil no_gil;
  auto transfer = std::make_unique<TensorTransfer>(std::move(inputs), outputs, std::move(give),
                                                   std::move(poison), &stream_);
  const std::shared_ptr<const DeviceLane> lane = transfer->lane();
  const std::string kind = call.kind;
  Hub::Ticket ticket = hub_of_run().launch(group_, getRank(), std::move(call), std::move(transfer));
  const bool is_watched = kind == "all_gather" || kind == "reduce_scatter" || kind == "all_reduce";
  if (current_watches != nullptr && ticket.slot && is_watched) {
    BufferWatch& watch = current_watches->at(static_cast<std::size_t>(ticket.rank));
    const auto role = kind == "all_gather" ? BufferRole::kGatherOutput : BufferRole::kReduceOutput;
    for (const at::Tensor& input : reduce_inputs) {
      watch.add(BufferRole::kReduceInput, group_.name, ticket.sequence, input.storage());
    }
    for (const at::Tensor& output : outputs) {
      watch.add(role, group_.name, ticket.sequence, output.storage());
    }
    watch.note_launch();
  }
  return c10::make_intrusive<SimWork>(std::move(ticket), getRank(), type, outputs, lane);
}

void SimBackend::check_root(std::int64_t root) const {
  TORCH_CHECK(root >= 0 && root < getSize(), "invalid root rank: ", root);
}

SimBackend::WorkPtr SimBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                const c10d::AllgatherOptions& /*options*/) {
  TORCH_CHECK(input.dtype() == output.dtype(),
              "output tensor must have the same type as input tensor");
  TORCH_CHECK(input.numel() * getSize() == output.numel(),
              "output tensor size must be equal to world_size times input tensor size");
  const std::int64_t slot = input.numel();
  auto give = [slot](Tensors& outputs, const std::vector<const Tensors*>& inputs) {
    at::Tensor flat = outputs[0].view(-1);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      flat.narrow(0, slot * static_cast<std::int64_t>(i), slot).copy_((*inputs[i])[0].view(-1));
    }
  };
  auto poison = [slot, member = getRank()](Tensors& outputs) {
    poison_other_slots(outputs[0], slot, member);
  };
  return launch(call_of("all_gather", input), {input}, {output}, give, poison,
                c10d::OpType::_ALLGATHER_BASE);
}

SimBackend::WorkPtr SimBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& /*options*/) {
  TORCH_CHECK(inputs.size() == 1 && outputs.size() == 1, "allgather of one tensor only");
  TORCH_CHECK(static_cast<int>(outputs[0].size()) == getSize(),
              "allgather needs an output tensor for each rank");
  for (const at::Tensor& output : outputs[0]) check_like(output, inputs[0]);
  auto give = [](Tensors& out, const std::vector<const Tensors*>& in) {
    for (std::size_t i = 0; i < in.size(); ++i) out[i].view(-1).copy_((*in[i])[0].view(-1));
  };
  return launch(call_of("all_gather", inputs[0]), inputs, outputs[0], give, poison_all,
                c10d::OpType::ALLGATHER);
}

SimBackend::WorkPtr SimBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& /*options*/) {
  TORCH_CHECK(!inputs.empty() && inputs.size() == outputs.size(), "one output for each input");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK(inputs[i].numel() * getSize() == outputs[i].numel(),
                "output tensor size must be equal to world_size times input tensor size");
  }
  Call call = call_of("all_gather", inputs[0]);
  call.count = call.bytes = 0;
  for (const at::Tensor& input : inputs) {
    call.count += input.numel();
    call.bytes += static_cast<std::int64_t>(input.nbytes());
  }
  auto give = [](Tensors& out, const std::vector<const Tensors*>& in) {
    for (std::size_t tensor = 0; tensor < out.size(); ++tensor) {
      at::Tensor flat = out[tensor].view(-1);
      const std::int64_t slot = flat.numel() / static_cast<std::int64_t>(in.size());
      for (std::size_t i = 0; i < in.size(); ++i) {
        flat.narrow(0, slot * static_cast<std::int64_t>(i), slot).copy_((*in[i])[tensor].view(-1));
      }
    }
  };
  return launch(std::move(call), inputs, outputs, give, poison_all,
                c10d::OpType::ALLGATHER_COALESCED);
}

SimBackend::WorkPtr SimBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                     const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK(input.dtype() == output.dtype(),
              "input tensor must be the same type as the output tensor");
  TORCH_CHECK(output.numel() * getSize() == input.numel(),
              "input tensor must be the same size as output size times world size");
  Call call = call_of("reduce_scatter", output);
  call.reduce = name_of(options.reduceOp);
  auto give = [op = options.reduceOp, member = getRank()](Tensors& out,
                                                          const std::vector<const Tensors*>& in) {
    const std::int64_t slot = out[0].numel();
    Tensors parts;
    for (const Tensors* inputs : in) {
      parts.push_back((*inputs)[0].view(-1).narrow(0, slot * member, slot));
    }
    out[0].view(-1).copy_(reduced(parts, op));
  };
  return launch(std::move(call), {input}, {output}, give, poison_all,
                c10d::OpType::_REDUCE_SCATTER_BASE, {input});
}

SimBackend::WorkPtr SimBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  TORCH_CHECK(tensors.size() == 1, "allreduce of one tensor only");
  TORCH_CHECK(tensors[0].is_contiguous(), "tensors must be contiguous");
  Call call = call_of("all_reduce", tensors[0]);
  call.reduce = name_of(options.reduceOp);
  auto give = [op = options.reduceOp](Tensors& out, const std::vector<const Tensors*>& in) {
    Tensors parts;
    for (const Tensors* inputs : in) parts.push_back((*inputs)[0].view(-1));
    out[0].view(-1).copy_(reduced(parts, op));
  };
  return launch(std::move(call), tensors, tensors, give, poison_all, c10d::OpType::ALLREDUCE);
}

SimBackend::WorkPtr SimBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  TORCH_CHECK(tensors.size() == 1, "broadcast of one tensor only");
  check_root(options.rootRank);
  TORCH_CHECK(tensors[0].is_contiguous(), "tensors must be contiguous");
  Call call = call_of("broadcast", tensors[0]);
  call.root = static_cast<int>(options.rootRank);
  auto give = [root = options.rootRank](Tensors& out, const std::vector<const Tensors*>& in) {
    out[0].view(-1).copy_((*in[static_cast<std::size_t>(root)])[0].view(-1));
  };
  return launch(std::move(call), tensors, tensors, give, poison_all, c10d::OpType::BROADCAST);
}

SimBackend::WorkPtr SimBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                        const c10d::ScatterOptions& options) {
  TORCH_CHECK(outputs.size() == 1, "scatter of one tensor only");
  check_root(options.rootRank);
  const bool is_root = options.rootRank == getRank();
  TORCH_CHECK(inputs.size() == (is_root ? 1U : 0U),
              "scatter takes its list of inputs on the root only");
  if (is_root) {
    TORCH_CHECK(static_cast<int>(inputs[0].size()) == getSize(),
                "scatter needs an input for each rank");
    for (const at::Tensor& input : inputs[0]) check_like(input, outputs[0]);
  }
  Call call = call_of("scatter", outputs[0]);
  call.root = static_cast<int>(options.rootRank);
  auto give = [root = options.rootRank, member = getRank()](Tensors& out,
                                                            const std::vector<const Tensors*>& in) {
    out[0].view(-1).copy_(
        (*in[static_cast<std::size_t>(root)])[static_cast<std::size_t>(member)].view(-1));
  };
  Tensors given = is_root ? inputs[0] : Tensors{};
  return launch(std::move(call), std::move(given), outputs, give, poison_all,
                c10d::OpType::SCATTER);
}

SimBackend::WorkPtr SimBackend::barrier(const c10d::BarrierOptions& /*options*/) {
  Call call{.kind = "barrier", .dtype = "none", .count = 1};
  auto give = [](Tensors&, const std::vector<const Tensors*>&) {};
  auto poison = [](Tensors&) {};
  return launch(std::move(call), {}, {}, give, poison, c10d::OpType::BARRIER);
}

}  // namespace shardfuzz
