#include "fuzz/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <utility>

#include "fuzz/case_source.h"
#include "fuzz/shrink.h"
#include "fuzz/writable.h"
#include "harness/base/hash.h"
#include "harness/case/case_json.h"
#include "harness/case/validate.h"
#include "harness/oracle/judge.h"

namespace shardfuzz {
namespace {

constexpr int kRepeatOneIn = 100;        // passing cases that are run twice (P11)
constexpr int kMeshRelationOneIn = 100;  // passing cases that are compared over meshes (P12)

CaseSeries series_of(const EngineOptions& options) {
  return {.seed = options.seed,
          .packs = options.packs,
          .world_max = options.world_max,
          .documented_use_only = options.documented_use_only,
          .steered_one_in = options.steered_one_in,
          .command = options.command};
}

bool one_in(std::int64_t number, int share, std::uint64_t salt) {
  return mix64(static_cast<std::uint64_t>(number) ^ salt) % static_cast<std::uint64_t>(share) == 0;
}

class Run {
 public:
  Run(Runner& runner, const EngineOptions& options, const EngineEvents& events)
      : runner_(runner),
        options_(options),
        source_(series_of(options)),
        events_(events),
        start_(now()),
        next_case_(options.start.next_case),
        next_handled_(options.start.next_case),
        ranges_taken_(options.start.next_range) {
    source_.skip_to(next_case_);
  }

  Result<EngineResult> go() {
    if (Status made = make_writable_folder(options_.output_folder); !made) return made.error();
    load_earlier();
    if (options_.explorer != nullptr) {
      if (Status started = options_.explorer->start(); !started) return started.error();
    }
    while (!is_over()) {
      if (Status status = feed(); !status) return status.error();
      if (Status status = collect(); !status) return status.error();
      if (Status status = look_at_explorer(); !status) return status.error();
      if (!to_shrink_.empty() || !to_compare_.empty() || !to_confirm_.empty()) {
        if (Status status = settle(options_.own_cases ? kAll : 1); !status) return status.error();
      }
      if (events_.came_to) events_.came_to(position());
    }
    if (Status status = finish(); !status) return status.error();
    tell_rest();
    result_.stats.seconds = elapsed();
    result_.position = position();
    return std::move(result_);
  }

 private:
  using Time = std::chrono::steady_clock::time_point;
  static Time now() { return std::chrono::steady_clock::now(); }
  [[nodiscard]] double elapsed() const {
    return std::chrono::duration<double>(now() - start_).count();
  }

  [[nodiscard]] RunPosition position() const {
    return {.next_case = next_handled_, .next_range = ranges_taken_};
  }
  [[nodiscard]] bool limit_reached() const {
    const std::int64_t came_to = options_.own_cases ? next_case_ : result_.stats.explored;
    return options_.case_limit > 0 && came_to >= options_.case_limit;
  }
  [[nodiscard]] bool is_stopping() const {
    return options_.is_interrupted() || options_.is_out_of_time() || result_.too_many_signatures;
  }
  [[nodiscard]] bool is_over() const {
    if (is_stopping()) return true;
    if (!options_.own_cases && explorer_is_done_) return true;
    return limit_reached() && runner_.pending_count() == 0;
  }

  // Files of an earlier run in the same folder: their failures are not new.
  void load_earlier() {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(options_.output_folder, error)) {
      if (entry.path().extension() != ".json") continue;
      if (const auto earlier = load_case(entry.path().string())) {
        if (!earlier->expect.signature.empty()) seen_.insert(earlier->expect.signature);
      }
    }
  }

  Status feed() {
    if (!options_.own_cases) return Done{};
    while (!limit_reached() && runner_.pending_count() < kInFlight && to_shrink_.empty() &&
           to_confirm_.empty() && next_case_ - next_handled_ < kHeldMax) {
      const std::int64_t number = next_case_++;
      const Case c = source_.next();
      if (const Status valid = validate(c); !valid) {
        ++result_.stats.invalid;  // the generator's bug: its test holds that there are none
        note_error("generated case does not validate: " + valid.error().text());
        held_[number] = std::nullopt;
        continue;
      }
      if (Status sent = runner_.submit(id_of(number, Purpose::kFirst), c); !sent) return sent;
    }
    return Done{};
  }

  // At fixed numbers of cases, so that it does not matter how fast the explorer is.
  Status look_at_explorer() {
    if (options_.explorer == nullptr || explorer_is_done_) return Done{};
    if (options_.own_cases && next_handled_ < kCasesPerRange * (1 + ranges_taken_)) return Done{};
    const auto answer = options_.explorer->take([this] { return is_stopping(); });
    if (!answer) return is_stopping() ? Status(Done{}) : Status(answer.error());
    ++ranges_taken_;
    result_.stats.explored += answer->cases;
    result_.stats.lost_ranges = options_.explorer->lost_ranges();
    tell_progress();
    if (answer->cases == 0 && !answer->was_lost) {  // packs that the twin has not
      explorer_is_done_ = true;
      return Done{};
    }
    for (const ExploreAnswer::Failure& failure : answer->failures) {
      if (seen_.count(failure.signature) == 0 && explored_.insert(failure.signature).second) {
        to_confirm_.push_back(failure);
      }
    }
    return options_.explorer->start();
  }

  // What failed on the native target, on the real one.
  Status confirm(const ExploreAnswer::Failure& failure) {
    if (seen_.count(failure.signature) != 0) return Done{};
    const Case& c = failure.the_case;
    const auto evaluated = runner_.evaluate(c);
    if (!evaluated) return evaluated.error();
    if (evaluated->verdict.kind == VerdictKind::kError) return Done{};  // interrupted, or ours
    const bool same = evaluated->verdict.signature == failure.signature;
    ++(same ? result_.stats.confirmed : result_.stats.not_confirmed);
    const bool is_new = evaluated->verdict.kind == VerdictKind::kFail &&
                        seen_.count(evaluated->verdict.signature) == 0;
    const std::int64_t number = options_.own_cases ? next_handled_ : failure.number;
    return is_new ? note_failure(c, *evaluated, number) : Done{};
  }

  enum class Purpose : std::uint64_t { kFirst = 0, kRepeat = 1 };
  static std::uint64_t id_of(std::int64_t number, Purpose purpose) {
    return (static_cast<std::uint64_t>(number) << 1) | static_cast<std::uint64_t>(purpose);
  }

  Status collect() {
    const auto finished = runner_.poll(std::chrono::milliseconds(100));
    if (!finished) return finished.error();
    for (const Runner::Finished& item : *finished) {
      const auto number = static_cast<std::int64_t>(item.id >> 1);
      if (static_cast<Purpose>(item.id & 1) == Purpose::kFirst) {
        held_[number] = item;
      } else if (Status handled = handle_repeat(item, number); !handled) {
        return handled;
      }
    }
    if (Status handled = handle_in_order(); !handled) return handled;
    tell_progress();
    return Done{};
  }

  // Workers finish in any order; which case is the first with a signature must not depend on it.
  Status handle_in_order() {
    while (!held_.empty() && held_.begin()->first == next_handled_) {
      const auto item = std::move(held_.extract(held_.begin()).mapped());
      const std::int64_t number = next_handled_++;
      if (!item) continue;  // did not validate
      if (Status handled = handle(number, *item); !handled) return handled;
    }
    return Done{};
  }

  void tell_progress() {
    result_.stats.seconds = elapsed();
    if (!events_.progress) return;
    std::size_t known = 0;
    for (const Failure& failure : result_.failures) known += failure.is_known ? 1 : 0;
    events_.progress(result_.stats, result_.failures.size(), known);
  }

  Status handle(std::int64_t number, const Runner::Finished& item) {
    const Evaluated& evaluated = item.evaluated;
    EngineStats& stats = result_.stats;
    ++stats.cases;
    stats.ranks += item.the_case.mesh.world_size();
    if (events_.ran) events_.ran(item.the_case);
    if (!evaluated.trace) ++stats.lost_workers;
    switch (evaluated.verdict.kind) {
      case VerdictKind::kPass: ++stats.passed; break;
      case VerdictKind::kFail: ++stats.failed; break;
      case VerdictKind::kRefused: ++stats.refused; break;
      case VerdictKind::kInvalid: ++stats.invalid; break;
      case VerdictKind::kError:
        ++stats.errors;
        note_error(evaluated.verdict.sentence);
        return Done{};
    }
    const bool is_failure = evaluated.verdict.kind == VerdictKind::kFail;
    const bool is_new = is_failure && seen_.count(evaluated.verdict.signature) == 0;
    const bool is_pass = evaluated.verdict.kind == VerdictKind::kPass;
    if (is_new) {
      if (Status noted = note_failure(item.the_case, evaluated, number); !noted) return noted;
    }
    // Failures run twice: new ones always, the others as often as passes (each would double the
    // cost).
    const bool twice = is_new || one_in(number, kRepeatOneIn, options_.seed);
    if (evaluated.trace && twice && !options_.is_interrupted()) {
      first_traces_[number] = *evaluated.trace;
      return runner_.submit(id_of(number, Purpose::kRepeat), item.the_case, Shortcuts::kNever);
    }
    if (is_pass && !item.the_case.compare_meshes.empty()) {
      to_compare_.push_back({number, item.the_case});  // only its own mesh has run so far
    } else if (is_pass && one_in(number, kMeshRelationOneIn, ~options_.seed)) {
      note_relation(item.the_case, number);
    }
    return Done{};
  }

  Status handle_repeat(const Runner::Finished& item, std::int64_t number) {
    ++result_.stats.repeated;
    const Trace first = std::move(first_traces_.at(number));
    first_traces_.erase(number);
    if (!item.evaluated.trace) return Done{};  // lost the second time: the next case will show it
    Evaluated evaluated{.verdict = judge_repeat(item.the_case, first, *item.evaluated.trace),
                        .trace = first};
    if (evaluated.verdict.kind == VerdictKind::kFail &&
        seen_.count(evaluated.verdict.signature) == 0) {
      return note_failure(item.the_case, evaluated, number);
    }
    return Done{};
  }

  void note_error(const std::string& sentence) {
    if (result_.stats.first_error.empty()) result_.stats.first_error = sentence;
  }

  // A new failure: on disk at once, to be shrunk when the workers are idle.
  Status note_failure(const Case& c, const Evaluated& evaluated, std::int64_t number) {
    const Verdict& verdict = evaluated.verdict;
    seen_.insert(verdict.signature);
    if (result_.failures.size() >= kMaxSignatures) {
      result_.too_many_signatures = true;
      return Done{};
    }
    Failure failure{.signature = verdict.signature,
                    .sentence = verdict.sentence,
                    .smallest = c,
                    .is_known = options_.known_signatures.count(verdict.signature) != 0,
                    .found_after_s = elapsed(),
                    .found_at_case = number};
    failure.smallest.expect = {
        .verdict = "fail", .signature = verdict.signature, .sentence = verdict.sentence};
    if (evaluated.trace) {
      failure.smallest.environment.torch = evaluated.trace->torch_version;
      failure.smallest.environment.torchao = evaluated.trace->torchao_version;
    }
    failure.file =
        (std::filesystem::path(options_.output_folder) / file_name_of(verdict.signature)).string();
    if (Status saved = save_case(failure.smallest, failure.file); !saved) return saved;
    if (events_.found) events_.found(failure);
    result_.failures.push_back(failure);
    to_shrink_.push_back({result_.failures.size() - 1, verdict});
    return Done{};
  }

  void note_relation(Case c, std::int64_t number) {
    if (c.mesh.shape.size() != 1 || c.batch.values != DataKind::kInteger) return;
    for (const GroupSpec& group : c.groups) {
      if (std::holds_alternative<int>(group.reshard_after_forward))
        return;  // must divide each mesh
    }
    const std::vector<int> shape = c.mesh.shape;
    c = on_mesh(std::move(c), shape);
    c.batch.same_on_all_ranks = true;
    c.compare_meshes = {{1}, {2}, {3}};
    if (validate(c)) to_compare_.push_back({number, std::move(c)});
  }

  // With nothing in flight: confirm, compare meshes, shrink what was found.
  Status settle(std::size_t shrink_max = kAll) {
    while (runner_.pending_count() > 0) {
      if (Status status = collect(); !status) return status;
      if (options_.is_interrupted()) return Done{};
    }
    while (!to_confirm_.empty() && !is_stopping()) {
      const ExploreAnswer::Failure failure = to_confirm_.front();
      to_confirm_.pop_front();
      if (Status confirmed = confirm(failure); !confirmed) return confirmed;
    }
    while (!to_compare_.empty() && !is_stopping()) {
      const auto [number, c] = std::move(to_compare_.front());
      to_compare_.pop_front();
      ++result_.stats.mesh_relations;
      const auto evaluated = runner_.evaluate(c);
      if (!evaluated) return evaluated.error();
      if (evaluated->verdict.kind == VerdictKind::kFail &&
          seen_.count(evaluated->verdict.signature) == 0) {
        if (Status noted = note_failure(c, *evaluated, number); !noted) return noted;
      }
    }
    for (; shrink_max > 0 && !to_shrink_.empty() && !options_.is_interrupted(); --shrink_max) {
      const auto [index, verdict] = std::move(to_shrink_.front());
      to_shrink_.pop_front();
      if (Status status = shrink_failure(index, verdict); !status) return status;
    }
    return Done{};
  }

  // What was found in the last moments is shrunk too, unless the user asked to stop.
  Status finish() {
    while (runner_.pending_count() > 0 && !options_.is_interrupted()) {
      if (Status status = collect(); !status) return status;
    }
    if (!options_.is_interrupted()) return settle();
    // Some case before these has not come back and never will.
    for (const auto& [number, item] : held_) {
      if (!item) continue;
      if (Status handled = handle(number, *item); !handled) return handled;
    }
    return Done{};
  }

  void tell_done(const Failure& failure) const {
    if (events_.done) events_.done(failure);
  }

  // Those that an interrupt kept from being shrunk.
  void tell_rest() const {
    for (const ToShrink& rest : to_shrink_) tell_done(result_.failures[rest.index]);
  }

  Status shrink_failure(std::size_t index, const Verdict& verdict) {
    Failure& failure = result_.failures[index];
    const bool can_shrink = verdict.findings.empty() || verdict.findings[0].property != "P11";
    if (!can_shrink) {
      tell_done(failure);
      return Done{};
    }
    const auto shrunk =
        shrink(runner_, failure.smallest, verdict,
               {.max_evaluations = options_.minimize_evaluations,
                .out_of_time = Deadline(options_.minimize_seconds, options_.is_interrupted),
                .predicate_out_of_time =
                    Deadline(options_.minimize_seconds * 2, options_.is_interrupted)});
    if (!shrunk) return shrunk.error();
    const Environment environment = failure.smallest.environment;
    failure.smallest = shrunk->smallest;
    failure.smallest.environment = environment;
    failure.sentence = shrunk->verdict.sentence;
    failure.predicate = shrunk->smallest.predicate;
    failure.evaluations = shrunk->evaluations;
    result_.stats.minimizer_evaluations += shrunk->evaluations + shrunk->predicate_evaluations;
    failure.is_minimized = shrunk->is_fixed_point;
    if (Status saved = save_case(failure.smallest, failure.file); !saved) return saved;
    tell_done(failure);
    return Done{};
  }

  static constexpr std::size_t kAll = SIZE_MAX;
  static constexpr std::int64_t kCasesPerRange = 32;  // of the real target, for one explored range
  static constexpr std::size_t kInFlight = 4;         // enough to keep two workers busy
  // Cases that are ahead of one that has not come back: it may be a hang of a minute.
  static constexpr std::int64_t kHeldMax = 256;

  Runner& runner_;
  const EngineOptions& options_;
  CaseSource source_;
  const EngineEvents& events_;
  const Time start_;
  EngineResult result_;
  std::int64_t next_case_, next_handled_;
  std::map<std::int64_t, std::optional<Runner::Finished>>
      held_;  // finished, but not their turn yet
  std::set<std::string> seen_;
  std::set<std::string> explored_;  // signatures that the native target showed
  std::deque<ExploreAnswer::Failure> to_confirm_;
  std::int64_t ranges_taken_;
  bool explorer_is_done_ = false;
  std::map<std::int64_t, Trace> first_traces_;
  struct ToShrink {
    std::size_t index;
    Verdict verdict;
  };
  std::deque<ToShrink> to_shrink_;
  struct ToCompare {
    std::int64_t number;
    Case the_case;
  };
  std::deque<ToCompare> to_compare_;
};

}  // namespace

Result<EngineResult> fuzz(Runner& runner, const EngineOptions& options,
                          const EngineEvents& events) {
  return Run(runner, options, events).go();
}

std::string file_name_of(const std::string& signature) {
  std::string slug;
  for (const char c : signature) {
    const bool keep = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    if (keep) {
      slug += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  constexpr std::size_t kSlugMax = 90;
  if (slug.size() > kSlugMax) slug.resize(kSlugMax);
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return slug + "-" + hex64(hash_bytes(signature)).substr(0, 6) + ".json";
}

}  // namespace shardfuzz
