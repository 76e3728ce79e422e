#include <torch/csrc/utils/pybind.h>
// Torch's pybind header comes first: it includes Python.h.
#include "harness/real/native_module.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/base/data_fill.h"
#include "harness/base/hash.h"
#include "harness/collective/sim_backend.h"
#include "harness/real/operator_watch.h"

namespace py = pybind11;

namespace shardfuzz {
namespace {

CurrentRun current;

// Operators that the harness runs for itself are not watched (operator_watch.h).
using Unwatched = at::DisableRecordFunctionGuard;

// A NaN whose payload says that it came from our padding; bfloat16 keeps the upper half.
constexpr std::uint32_t kTag32 = 0x7FE5A5A5U;
constexpr std::uint16_t kTag16 = 0x7FE5U;

std::string digest(const at::Tensor& tensor) {
  const Unwatched unwatched;
  const at::Tensor host = tensor.detach().contiguous().cpu();
  return hex64(tensor_digest(host.const_data_ptr(), host.nbytes()));
}

void fill(const at::Tensor& tensor, std::uint64_t seed, const std::string& place, int range,
          bool integer) {
  TORCH_CHECK(tensor.is_contiguous() && tensor.scalar_type() == at::kFloat && tensor.is_cpu(),
              "fill needs a contiguous float32 tensor on the CPU");
  fill_data(tensor.mutable_data_ptr<float>(), tensor.numel(), seed, place, range, integer);
}

void write_tags(const at::Tensor& tensor) {
  const Unwatched unwatched;
  at::Tensor flat = tensor.detach();
  if (flat.numel() == 0) return;
  if (flat.scalar_type() == at::kFloat) {
    flat.view(at::kInt).fill_(static_cast<std::int32_t>(kTag32));
  } else if (flat.scalar_type() == at::kBFloat16) {
    flat.view(at::kShort).fill_(static_cast<std::int16_t>(kTag16));
  } else if (flat.is_floating_point()) {
    flat.fill_(std::nan(""));
  }
}

std::int64_t count_tags(const at::Tensor& tensor) {
  const Unwatched unwatched;
  if (!tensor.is_floating_point() || tensor.numel() == 0) return 0;
  if (tensor.element_size() == 1)
    return tensor.detach().to(at::kFloat).isnan().sum().item<std::int64_t>();
  const at::Tensor host = tensor.detach().contiguous().cpu();
  std::int64_t count = 0;
  if (host.scalar_type() == at::kFloat) {
    const auto* data = host.const_data_ptr<float>();
    for (std::int64_t i = 0; i < host.numel(); ++i) count += std::isnan(data[i]) ? 1 : 0;
  } else if (host.scalar_type() == at::kBFloat16) {
    const auto* data = static_cast<const std::uint16_t*>(host.const_data_ptr());
    for (std::int64_t i = 0; i < host.numel(); ++i) count += (data[i] & 0x7FFF) > 0x7F80 ? 1 : 0;
  } else {
    count = host.isnan().sum().item<std::int64_t>();
  }
  return count;
}

c10::intrusive_ptr<c10d::Backend> make_backend(int member, const std::string& key,
                                               const std::string& name, std::vector<int> ranks) {
  return c10::make_intrusive<SimBackend>(
      member, ProcessGroupId{.key = key, .name = name, .members = std::move(ranks)});
}

void rename_backend(const c10::intrusive_ptr<c10d::Backend>& backend, const std::string& name) {
  if (auto* sim = dynamic_cast<SimBackend*>(backend.get())) sim->rename(name);
}

void define(py::module_& module) {
  module.def("next_index", [] { return current.recorder->take_index(); });
  module.def("set_place", [](int rank, int step, int operation, const std::string& phase) {
    current.recorder->set_place(rank, step, operation, phase);
    set_watched_place(rank, step, phase);
  });
  module.def("note_raised", [](int rank) { current.hub->note_raised(rank); });
  module.def("watch_unsharded", [](int rank, const std::vector<at::Tensor>& tensors) {
    BufferWatch& watch = current.watches->at(static_cast<std::size_t>(rank));
    for (const at::Tensor& tensor : tensors) watch.add_unsharded(tensor.storage());
  });
  module.def("record_memory", [](int rank) {
    current.recorder->record(rank, current.watches->at(static_cast<std::size_t>(rank)).take());
  });
  module.def("digest", &digest);
  module.def("fill", &fill);
  module.def("write_tags", &write_tags);
  module.def("count_tags", &count_tags);
  module.def("make_backend", &make_backend);
  module.def("rename_backend", &rename_backend);
}

PyObject* init_module() {
  static py::module_::module_def definition;
  auto module = py::module_::create_extension_module("_shardfuzz", nullptr, &definition);
  define(module);
  return module.release().ptr();
}

}  // namespace

void set_current_run(CurrentRun run) { current = run; }

void register_native_module() { PyImport_AppendInittab("_shardfuzz", &init_module); }

}  // namespace shardfuzz
