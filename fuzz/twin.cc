#include "fuzz/twin.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <utility>

#include "fuzz/engine.h"
#include "fuzz/numbered_case.h"
#include "fuzz/shrink.h"
#include "fuzz/writable.h"
#include "harness/case/case_json.h"
#include "harness/minimize/minimize.h"
#include "harness/native/supported.h"

namespace shardfuzz {
namespace {

using Clock = std::chrono::steady_clock;

const std::vector<std::string> kPacksOfTwin{"plain", "torchao_moe_fp8"};

constexpr Sides kSides{.left = "real", .right = "native"};
constexpr std::size_t kInFlight = 6;
constexpr std::size_t kDisagreementsMax = 32;  // by then something is broken for good

std::string text_of(const Verdict& verdict) {
  return verdict.signature.empty() ? std::string(name_of(verdict.kind))
                                   : fmt::format("{} {}", name_of(verdict.kind), verdict.signature);
}

Compared compared_of(const Evaluated& real, const Evaluated& native) {
  Compared result{.real = real.verdict, .native = native.verdict};
  if (!real.trace || !native.trace) {
    result.name = "lost";
    result.sentence = fmt::format("{} loses its process", real.trace ? "native" : "real");
    return result;
  }
  result.comparison = compare_traces(*real.trace, *native.trace, {.exceptions = twin_exceptions()});
  if (!result.comparison.same()) {
    const Difference& first = result.comparison.differences.front();
    result.name = first.name;
    result.sentence = first.sentence(kSides);
  } else if (real.verdict.kind != native.verdict.kind ||
             real.verdict.signature != native.verdict.signature) {
    result.name = "verdict";
    result.sentence = fmt::format("real is {}, native is {}, from equal traces",
                                  text_of(real.verdict), text_of(native.verdict));
  }
  return result;
}

class TwinRun {
 public:
  TwinRun(Runner& real, Runner& native, const TwinOptions& options, const TwinEvents& events)
      : real_(real),
        native_(native),
        options_(options),
        events_(events),
        series_{.seed = options.seed,
                .packs = options.packs.empty() ? kPacksOfTwin : options.packs,
                .world_max = options.world_max,
                .command = options.command},
        start_(Clock::now()) {}

  Result<TwinResult> go() {
    while (!is_stopping()) {
      while (real_.pending_count() < kInFlight && wants_more()) {
        if (Status sent = send(); !sent) return sent.error();
      }
      if (real_.pending_count() == 0 && !wants_more()) break;
      if (Status collected = collect(); !collected) return collected.error();
    }
    while (real_.pending_count() > 0 && !options_.is_interrupted()) {
      if (Status collected = collect(); !collected) return collected.error();
    }
    if (Status settled = settle(); !settled) return settled.error();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool is_stopping() const {
    return options_.is_interrupted() || options_.is_out_of_time() ||
           result_.disagreements.size() >= kDisagreementsMax;
  }
  [[nodiscard]] bool wants_more() const {
    return !is_stopping() && (options_.case_limit == 0 || sent_ < options_.case_limit);
  }

  Case next_case() {
    while (true) {
      Case c = numbered_case(series_, next_++);
      c.compare_meshes.clear();
      const auto reason = native::unsupported(c);
      if (!reason) return c;
      ++result_.stats.skipped[*reason];
    }
  }

  Status send() {
    const Case c = next_case();
    return real_.submit(static_cast<std::uint64_t>(sent_++), c);
  }

  Status collect() {
    const auto finished = real_.poll(std::chrono::milliseconds(100));
    if (!finished) return finished.error();
    for (const Runner::Finished& item : *finished) {
      const auto native = native_.evaluate(item.the_case);
      if (!native) return native.error();
      if (options_.is_interrupted()) return Done{};
      if (Status taken = take(item, *native); !taken) return taken;
    }
    result_.stats.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    if (events_.progress) events_.progress(result_.stats, result_.disagreements.size());
    return Done{};
  }

  Status take(const Runner::Finished& item, const Evaluated& native) {
    const Compared compared = compared_of(item.evaluated, native);
    TwinStats& stats = result_.stats;
    ++stats.compared;
    stats.events += compared.comparison.events_compared;
    stats.fields += compared.comparison.fields_compared;
    for (const auto& [name, count] : compared.comparison.exceptions_used) {
      stats.exceptions_used[name] += count;
    }
    if (compared.name == "lost") ++stats.lost;
    if (compared.name.empty() && compared.real.kind == VerdictKind::kFail) ++stats.failed;
    if (compared.name.empty() && compared.real.kind == VerdictKind::kRefused) ++stats.refused;
    if (compared.name.empty()) return Done{};
    for (const Disagreement& known : result_.disagreements) {
      if (known.name == compared.name) return Done{};
    }
    result_.disagreements.push_back({.name = compared.name,
                                     .sentence = compared.sentence,
                                     .smallest = item.the_case,
                                     .found_at_case = static_cast<std::int64_t>(item.id)});
    return save(&result_.disagreements.back());  // an interrupt loses nothing
  }

  Status save(Disagreement* found) {
    found->smallest.origin = {.kind = "fuzz",
                              .source = options_.command,
                              .note = "real and native differ: " + found->sentence};
    found->file =
        (std::filesystem::path(options_.output_folder) / file_name_of("twin " + found->name))
            .string();
    return save_case(found->smallest, found->file);
  }

  // With nothing in flight: shrink what was found, unless the user asked to stop.
  Status settle() {
    for (Disagreement& found : result_.disagreements) {
      if (!options_.is_interrupted()) {
        if (Status shrunk = shrink(&found); !shrunk) return shrunk;
      }
      if (events_.found) events_.found(found);
    }
    return Done{};
  }

  Status shrink(Disagreement* found) {
    std::optional<Error> error;
    const auto evaluate = [&](const Case& c) -> Verdict {
      if (error || native::unsupported(c)) return {.kind = VerdictKind::kPass};
      const auto compared = compare_case(real_, native_, c);
      if (!compared) {
        error = compared.error();
        return {};
      }
      if (compared->name.empty()) return {.kind = VerdictKind::kPass};
      return {
          .kind = VerdictKind::kFail, .signature = compared->name, .sentence = compared->sentence};
    };
    const MinimizeResult small =
        minimize(found->smallest, found->name, evaluate,
                 {.out_of_time = Deadline(options_.minimize_seconds, options_.is_interrupted)});
    if (error) return *error;
    found->evaluations = small.evaluations;
    if (small.end != MinimizeEnd::kNotReproduced) {
      found->smallest = small.smallest;
      if (!small.verdict.sentence.empty()) found->sentence = small.verdict.sentence;
    }
    return save(found);
  }

  Runner& real_;
  Runner& native_;
  const TwinOptions& options_;
  const TwinEvents& events_;
  const CaseSeries series_;
  const Clock::time_point start_;
  TwinResult result_;
  std::int64_t next_ = 0, sent_ = 0;
};

}  // namespace

const std::vector<CompareException>& twin_exceptions() {
  static const std::vector<CompareException> exceptions;
  return exceptions;
}

Result<Compared> compare_case(Runner& real, Runner& native, const Case& c) {
  const auto left = real.evaluate(c);
  if (!left) return left.error();
  const auto right = native.evaluate(c);
  if (!right) return right.error();
  return compared_of(*left, *right);
}

Result<TwinResult> compare_targets(Runner& real, Runner& native, const TwinOptions& options,
                                   const TwinEvents& events) {
  if (Status writable = make_writable_folder(options.output_folder); !writable)
    return writable.error();
  return TwinRun(real, native, options, events).go();
}

}  // namespace shardfuzz
