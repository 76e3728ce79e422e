#include "fuzz/runner.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/base/hash.h"
#include "harness/case/case_json.h"
#include "harness/case/case_names.h"
#include "harness/case/pack_info.h"
#include "harness/oracle/judge.h"
#include "harness/worker/clock.h"
#include "harness/worker/frame.h"
#include "harness/worker/output_tail.h"

namespace shardfuzz {
namespace {

constexpr std::size_t kPackNameMax = 40;
// One case in this many is run without shortcuts.
constexpr std::uint64_t kUnaidedOneIn = 8;

LostProcess lost_process(const Lost& lost) {
  LostProcess process{.what = "crash", .reason = lost.what, .place = lost.last_words};
  if (process.place.empty()) process.place = lost.last_place;
  if (lost.reason == Lost::Reason::kSignal) process.reason = signal_name(lost.signal_or_code);
  if (lost.reason == Lost::Reason::kExit) {
    process.reason = fmt::format("exit code {}", lost.signal_or_code);
  }
  if (lost.reason == Lost::Reason::kHang) process.what = "hang";
  if (lost.reason == Lost::Reason::kMemory) process.what = "memory";
  return process;
}

// A lost process that says more about us than about the code under test.
bool is_our_failure(const Lost& lost) {
  return lost.reason == Lost::Reason::kProtocol || is_killed_from_outside(lost) ||
         lost.output_tail.find("check failed:") != std::string::npos;
}

Error pack_error(const std::string& name, const std::string& what) {
  return {.what = what,
          .where = "pack '" + name + "'",
          .what_to_do = "mend its file; harness/real/shardfuzz_real/pack.py says what is allowed"};
}

// Reads names of a closed set.
template <typename Enum>
Status read_names(const PackInfo& pack, const nlohmann::json& names, std::vector<Enum>* values) {
  for (const std::string name : names) {
    Enum value{};
    if (!parse_name(name, &value)) return pack_error(pack.name, "it lists '" + name + "'");
    values->push_back(value);
  }
  if (values->empty()) return pack_error(pack.name, "its calls or dtypes are empty");
  return Done{};
}

// Names come into signatures, file names and case files.
bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= kPackNameMax &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_';
         });
}

Status check_pack(const PackInfo& pack) {
  if (!is_name(pack.name)) {
    return pack_error(printable(pack.name), "its name is not a-z, 0-9 and _ alone");
  }
  if (pack.hooks.empty()) return pack_error(pack.name, "it has no hooks");
  for (const HookInfo& hook : pack.hooks) {
    if (!is_name(hook.name)) {
      return pack_error(pack.name, "the name of a hook is not a-z, 0-9 and _ alone");
    }
    if (hook.arguments != 0 && hook.arguments != 1 && hook.arguments != 5) {
      return pack_error(pack.name, fmt::format("hook '{}' has {} arguments, not 0, 1 or 5",
                                               hook.name, hook.arguments));
    }
  }
  if (pack.dim_multiple < 1) return pack_error(pack.name, "its dim_multiple is below 1");
  return Done{};
}

Result<PackInfo> pack_from(const nlohmann::json& json) {
  PackInfo pack{.name = json.at("name"), .about = json.at("about")};
  for (const auto& hook : json.at("hooks")) {
    pack.hooks.push_back({.name = hook.at("name"),
                          .arguments = hook.at("arguments"),
                          .is_control = hook.at("control"),
                          .casts = hook.value("casts", true)});
  }
  if (Status s = read_names(pack, json.at("calls"), &pack.calls); !s) return s.error();
  if (Status s = read_names(pack, json.at("dtypes"), &pack.dtypes); !s) return s.error();
  pack.dim_multiple = json.at("dim_multiple");
  pack.is_extension = json.at("is_extension");
  pack.needs_param_dtype = json.at("needs_param_dtype");
  pack.gathers_values = json.at("gathers_values");
  pack.has_scales = json.at("has_scales");
  pack.gathered_item_bytes = json.value("gathered_item_bytes", 0);
  pack.gathered_scale_bytes_a_row = json.value("gathered_scale_bytes_a_row", 0);
  pack.hook_all_reduce_elements = json.value("hook_all_reduce_elements", 0);
  pack.holds_values = json.value("holds_values", false);
  if (Status good = check_pack(pack); !good) return good.error();
  return pack;
}

}  // namespace

PoolOptions pool_options(const RunnerOptions& options) {
  PoolOptions pool;
  pool.worker.argv = {options.worker};
  if (options.target == Target::kNative) {
    if (!options.planted.empty())
      pool.worker.argv.insert(pool.worker.argv.end(), {"--planted", options.planted});
  } else {
    pool.worker.argv.insert(pool.worker.argv.end(),
                            {"--python", options.python, "--home", options.home});
    if (options.device == "cuda") {
      pool.worker.argv.insert(pool.worker.argv.end(), {"--device", options.device});
    }
    if (!options.coverage_file.empty()) {
      pool.worker.argv.insert(pool.worker.argv.end(), {"--coverage", options.coverage_file});
    }
    for (const std::string& name : options.covered_modules) {
      pool.worker.argv.insert(pool.worker.argv.end(), {"--cover", name});
    }
  }
  for (const std::string& file : options.pack_files) {
    pool.worker.argv.push_back("--pack");
    pool.worker.argv.push_back(file);
  }
  pool.worker.argv.insert(pool.worker.argv.end(), options.worker_arguments.begin(),
                          options.worker_arguments.end());
  pool.worker.memory_bytes_max = options.memory_mib_max << 20;
  pool.worker.hang_signal = SIGUSR1;
  pool.worker_count = options.worker_count;
  pool.replace_at_once = true;  // a start takes seconds
  pool.request_timeout = std::chrono::seconds(options.timeout_s);
  pool.is_interrupted = options.is_interrupted;
  // Worlds and process groups are kept for the life of a worker; this bounds what they add up to.
  pool.rss_bytes_soft_max = (options.memory_mib_max << 20) * 3 / 4;
  return pool;
}

Case on_mesh(Case c, const std::vector<int>& shape) {
  c.mesh.shape = shape;
  c.mesh.dim_names = shape.size() == 1 ? std::vector<std::string>{"shard"}
                                       : std::vector<std::string>{"replicate", "shard"};
  c.schedule.delays.clear();
  c.batch.tokens_by_rank.clear();
  for (GroupSpec& group : c.groups) group.unused_on_ranks.clear();
  c.compare_meshes.clear();
  return c;
}

Runner::Runner(RunnerOptions options)
    : options_(std::move(options)), clock_(std::make_unique<SteadyClock>()) {
  pool_ = std::make_unique<WorkerPool>(pool_options(options_), *clock_);
}

Runner::~Runner() = default;

Status Runner::learn_packs() {
  const Result<std::string> hello = pool_->wait_hello();
  if (!hello) return hello.error();
  try {
    const nlohmann::json message = nlohmann::json::parse(*hello);  // outlives the loop over it
    for (const auto& pack : message.at("packs")) {
      if (find_pack(pack.at("name").get<std::string>()) != nullptr) continue;
      Result<PackInfo> learned = pack_from(pack);
      if (!learned) return learned.error();
      add_pack(std::move(learned).value());
    }
  } catch (const std::exception& problem) {
    return Error{.what = problem.what(),
                 .where = options_.worker,
                 .what_to_do = "mend the pack named with --pack, or rebuild: tools/setup"};
  }
  return Done{};
}

Result<Evaluated> Runner::evaluated_of(const Case& c, const Outcome& outcome) const {
  if (const auto* lost = std::get_if<Lost>(&outcome)) {
    if (lost->reason == Lost::Reason::kStartFailed) {
      return Error{.what = lost->text() + "\n" + lost->output_tail,
                   .where = options_.worker,
                   .what_to_do = "run tools/setup, or see shardfuzz doctor"};
    }
    Evaluated evaluated{.output_tail = lost->output_tail};
    if (is_our_failure(*lost)) {
      evaluated.verdict = {.kind = VerdictKind::kError, .sentence = lost->text()};
    } else {
      evaluated.verdict = judge_lost(c, lost_process(*lost));
    }
    return evaluated;
  }
  Result<Trace> trace = parse_trace(std::get<Answer>(outcome).payload);
  if (!trace) {
    return Evaluated{.verdict = {.kind = VerdictKind::kError, .sentence = trace.error().text()}};
  }
  Evaluated evaluated{.verdict = judge(c, *trace)};
  evaluated.trace = std::move(trace).value();
  return evaluated;
}

bool Runner::is_interrupted() const { return options_.is_interrupted && options_.is_interrupted(); }

std::string Runner::request_of(const Case& c, Shortcuts shortcuts) const {
  std::string text = compact_text(c);
  const bool never = shortcuts == Shortcuts::kNever || options_.shortcuts == Shortcuts::kNever;
  const bool unaided = never || hash_bytes(text) % kUnaidedOneIn == 0;
  if (unaided && options_.target == Target::kReal) text.insert(0, kUnaided);
  return text;
}

// The case on the device that was asked for.
Result<Case> Runner::placed(const Case& c) const {
  Case here = c;
  if (!options_.device.empty()) {
    here.environment.device = options_.device;
  } else if (c.environment.device != "cpu") {
    return Error{.what = "the case is for device " + c.environment.device,
                 .where = c.name,
                 .what_to_do = "say --device cuda where a GPU is, or --device cpu to run it there"};
  }
  return here;
}

Result<Evaluated> Runner::run_once(const Case& c) {
  const Result<Outcome> outcome = pool_->run_one(request_of(c, Shortcuts::kInMostRuns));
  if (!outcome && is_interrupted()) {  // what was learned before stays with the caller
    return Evaluated{.verdict = {.kind = VerdictKind::kError, .sentence = "interrupted"}};
  }
  if (!outcome) return outcome.error();
  return evaluated_of(c, *outcome);
}

Result<Evaluated> Runner::evaluate(const Case& the_case) {
  const Result<Case> here = placed(the_case);
  if (!here) return here.error();
  const Case& c = *here;
  Result<Evaluated> own = run_once(c);
  if (!own || c.compare_meshes.empty() || own->verdict.kind != VerdictKind::kPass) return own;
  std::vector<Trace> traces{*own->trace};
  for (const std::vector<int>& shape : c.compare_meshes) {
    Result<Evaluated> other = run_once(on_mesh(c, shape));
    if (!other) return other;
    if (other->verdict.kind != VerdictKind::kPass) return own;  // a case of its own
    traces.push_back(*other->trace);
  }
  return Evaluated{.verdict = judge_meshes(c, traces), .trace = own->trace};
}

Status Runner::submit(std::uint64_t id, const Case& the_case, Shortcuts shortcuts) {
  Result<Case> here = placed(the_case);
  if (!here) return here.error();
  const Case& c = pending_[id] = std::move(here).value();
  return pool_->submit(id, request_of(c, shortcuts));
}

Result<std::vector<Runner::Finished>> Runner::poll(std::chrono::milliseconds timeout) {
  const auto completed = pool_->poll(timeout);
  if (!completed) return completed.error();
  std::vector<Finished> finished;
  for (const Completed& item : *completed) {
    auto found = pending_.find(item.id);
    Finished result{.id = item.id, .the_case = std::move(found->second)};
    pending_.erase(found);
    Result<Evaluated> evaluated = evaluated_of(result.the_case, item.outcome);
    if (!evaluated) return evaluated.error();
    result.evaluated = std::move(evaluated).value();
    finished.push_back(std::move(result));
  }
  return finished;
}

std::size_t Runner::pending_count() const { return pending_.size(); }

void Runner::shutdown() { pool_->shutdown(); }

}  // namespace shardfuzz
