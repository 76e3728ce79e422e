#include <torch/csrc/utils/pybind.h>
// Torch's pybind header comes first: it includes Python.h.
#include "harness/real/real_target.h"

#include <fmt/ranges.h>
#include <pybind11/embed.h>
#include <pybind11/stl.h>

#include <utility>

#include "harness/case/case_json.h"
#include "harness/collective/hub.h"
#include "harness/collective/sim_backend.h"
#include "harness/collective/thread_scheduler.h"
#include "harness/real/fp8/kernels.h"
#include "harness/real/native_module.h"
#include "harness/real/operator_watch.h"
#include "harness/real/rank_threads.h"
#include "harness/trace/trace.h"
#include "harness/worker/shared_bytes.h"

namespace py = pybind11;

namespace shardfuzz {
namespace {

// Cases between two garbage collections: one costs some milliseconds after gc.freeze().
constexpr int kCasesPerCollection = 16;
// Cases after which everything that lives is taken as lasting (gc.freeze).
constexpr int kCasesBeforeFreeze = 4;

Status initialize_python(const RealTargetOptions& options) {
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.install_signal_handlers = 0;
  PyStatus status = PyConfig_SetBytesString(&config, &config.program_name, options.python.c_str());
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status)) {
    return Error{
        .what = std::string("Python does not start: ") + (status.err_msg ? status.err_msg : ""),
        .where = options.python,
        .what_to_do = "run tools/setup, or name a working interpreter with --python"};
  }
  return Done{};
}

Status load_pack(const py::module_& start, const std::string& file) {
  try {
    start.attr("load_pack")(file);
    return Done{};
  } catch (const py::error_already_set& error) {
    return Error{.what = error.what(),
                 .where = file,
                 .what_to_do = "mend the pack file; README.md shows what one looks like"};
  }
}

// Before anything imports torch. The bytes stay mapped for the life of the process.
Status install_coverage(const RealTargetOptions& options) {
  Result<SharedBytes> shared = SharedBytes::open(options.coverage_file);
  if (!shared) return shared.error();
  const auto* const kept = new SharedBytes(std::move(shared).value());
  const std::span<std::uint8_t> bytes = kept->bytes();
  const auto view =
      py::memoryview::from_memory(bytes.data(), static_cast<py::ssize_t>(bytes.size()));
  py::module_::import("shardfuzz_real.coverage").attr("install")(view, options.covered_modules);
  return Done{};
}

std::string join_events(const Recorder& recorder, const std::string& python_events) {
  std::string text;
  for (const Event& event : recorder.events()) {
    if (!text.empty()) text += ',';
    text += event_text(event);
  }
  if (!text.empty() && !python_events.empty()) text += ',';
  return text + python_events;
}

}  // namespace

struct __attribute__((visibility("hidden"))) RealTarget::State {
  std::string hello, torch_version, torchao_version;
  RankThreads threads;
  // Python objects live as long as the process: the interpreter is never finalized.
  py::object run_rank, check, events_json, thread_settings, collect, freeze, loads, use_shortcuts;
  std::vector<bool> thread_ready;
  std::string device;
  int cases_run = 0;

  void prepare_thread(int rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (thread_ready[at]) return;
    thread_ready[at] = true;
    thread_settings(device);
  }

  void collect_garbage() {
    ++cases_run;
    if (cases_run == kCasesBeforeFreeze) {
      collect();
      freeze();
    } else if (cases_run % kCasesPerCollection == 0) {
      collect();
    }
  }
};

RealTarget::RealTarget(std::unique_ptr<State> state) : state_(std::move(state)) {}
RealTarget::~RealTarget() = default;

Result<std::unique_ptr<RealTarget>> RealTarget::start(const RealTargetOptions& options) {
  register_native_module();
  if (Status python = initialize_python(options); !python) return python.error();
  auto state = std::make_unique<State>();
  state->device = options.device;
  try {
    py::module_::import("sys").attr("path").attr("insert")(0, options.home + "/harness/real");
    const auto start = py::module_::import("shardfuzz_real.start");
    if (!options.coverage_file.empty()) {
      if (Status covered = install_coverage(options); !covered) return covered.error();
    }
    const py::object torchao_version = start.attr("prepare")(options.home, options.device);
    for (const std::string& file : options.pack_files) {
      if (Status loaded = load_pack(start, file); !loaded) return loaded.error();
    }
    state->hello = start.attr("hello")(torchao_version).cast<std::string>();
    const auto run = py::module_::import("shardfuzz_real.run");
    state->run_rank = run.attr("run_rank");
    state->events_json = run.attr("events_json");
    state->check = py::module_::import("shardfuzz_real.reference").attr("check");
    state->use_shortcuts = py::module_::import("shardfuzz_real.shortcuts").attr("use");
    state->thread_settings = start.attr("thread_settings");
    state->collect = py::module_::import("gc").attr("collect");
    state->freeze = py::module_::import("gc").attr("freeze");
    state->loads = py::module_::import("json").attr("loads");
    const py::dict facts = state->loads(state->hello);
    state->torch_version = facts["torch"].cast<std::string>();
    state->torchao_version = facts["torchao"].cast<std::string>();
    state->thread_settings();
  } catch (const py::error_already_set& error) {
    if (error.matches(PyExc_OSError)) {  // gpu.py
      return Error{.what = py::str(error.value()).cast<std::string>(),
                   .where = options.python,
                   .what_to_do = "use --device cpu, or see shardfuzz doctor"};
    }
    return Error{
        .what = error.what(),
        .where = options.python,
        .what_to_do = "this Python needs torch and torchao: run tools/setup or see README.md"};
  }
  if (const auto missing = fp8_kernels_without_schema(); !missing.empty()) {
    return Error{.what = "torchao defines no operator '" + missing.front() + "'",
                 .where = options.python,
                 .what_to_do = "use torchao 0.18.0 (tools/setup), or report the version"};
  }
  PyEval_SaveThread();
  return std::unique_ptr<RealTarget>(new RealTarget(std::move(state)));
}

std::string RealTarget::hello() const { return state_->hello; }

std::string RealTarget::run(const Case& c, bool shortcuts) {
  const int world_size = c.mesh.world_size();
  Recorder recorder(world_size);
  Hub hub(world_size, c.schedule.delivery, &recorder);
  ThreadScheduler scheduler(world_size, c.schedule,
                            [&](Wake reason, const std::vector<Scheduler::RankView>& ranks) {
                              hub.record_stuck(reason, ranks);
                            });
  hub.set_scheduler(&scheduler);
  set_current_hub(&hub);
  std::vector<BufferWatch> watches(static_cast<std::size_t>(world_size));
  set_current_watches(&watches);
  set_current_run({.recorder = &recorder, .hub = &hub, .watches = &watches});

  PyObject* the_case = nullptr;  // read by all ranks, changed by none
  {
    const py::gil_scoped_acquire gil;
    the_case = state_->loads(full_text(c)).release().ptr();
    state_->use_shortcuts(shortcuts);
  }
  std::vector<PyObject*> programs(static_cast<std::size_t>(world_size), nullptr);
  std::string failure;
  if (state_->thread_ready.size() < programs.size()) state_->thread_ready.resize(programs.size());
  const std::string& device = c.environment.device;
  SHARDFUZZ_CHECK(device == state_->device, "a worker for {} got a case for {}", state_->device,
                  device);
  state_->threads.run(world_size, [&](int rank) {
    scheduler.enter(rank);
    {
      const PythonThread gil;
      const WatchedRank watched(rank, &recorder);
      try {
        state_->prepare_thread(rank);
        py::object program = state_->run_rank(py::handle(the_case), rank, device);
        programs[static_cast<std::size_t>(rank)] = program.release().ptr();
      } catch (const std::exception& error) {
        failure = error.what();  // our own bug: the rank program catches what the code raises
      }
    }
    scheduler.leave(rank);
  });

  std::string text;
  {
    const py::gil_scoped_acquire gil;
    py::list all;
    for (PyObject* program : programs) {
      if (program != nullptr) all.append(py::reinterpret_steal<py::object>(program));
    }
    try {
      SHARDFUZZ_CHECK(failure.empty(), "the rank program failed: {}", failure);
      const py::object extra = state_->check(py::reinterpret_steal<py::object>(the_case), all);
      text = join_events(recorder, state_->events_json(all, extra).cast<std::string>());
    } catch (const py::error_already_set& error) {
      SHARDFUZZ_CHECK(false, "the reference failed: {}", error.what());
    }
    all = py::list();
    state_->collect_garbage();
  }
  set_current_run({});
  set_current_watches(nullptr);
  set_current_hub(nullptr);
  return fmt::format(R"({{"world_size":{},"mesh":[{}],"torch":"{}","torchao":"{}","invalid":"",)"
                     R"("events":[{}]}})",
                     world_size, fmt::join(c.mesh.shape, ","), state_->torch_version,
                     state_->torchao_version, text);
}

}  // namespace shardfuzz
