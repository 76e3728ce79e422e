#include "tools/fuzz_display.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "reports/json_lines.h"
#include "reports/terminal.h"

namespace shardfuzz {
namespace {

constexpr double kProgressSeconds = 10;  // between progress lines where stderr is no terminal
constexpr double kTerminalSeconds = 0.2;

double per_second(std::int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

}  // namespace

std::string pack_arguments(const FuzzOptions& options) {
  std::string text;
  for (const std::string& file : options.runner.pack_files) text += " --pack " + file;
  return text;
}

FuzzDisplay::FuzzDisplay(const FuzzOptions& options)
    : options_(options), terminal_(isatty(STDERR_FILENO) != 0) {}

void FuzzDisplay::progress(const EngineStats& stats, std::size_t failures, std::size_t known) {
  const double every = terminal_ ? kTerminalSeconds : kProgressSeconds;
  if (options_.json || stats.seconds - last_ < every) return;
  last_ = stats.seconds;
  std::string line;
  if (stats.cases > 0 || stats.explored == 0) {
    line = fmt::format("{} cases  {:.1f}/s  {:.1f} ranks a case  ", stats.cases,
                       per_second(stats.cases, stats.seconds),
                       static_cast<double>(stats.ranks) /
                           static_cast<double>(std::max<std::int64_t>(stats.cases, 1)));
  }
  line +=
      fmt::format("{} distinct failure{} ({} known)", failures, failures == 1 ? "" : "s", known);
  if (stats.explored > 0) {
    line += fmt::format("  {} on the twin  {:.0f}/s", stats.explored,
                        per_second(stats.explored, stats.seconds));
  }
  if (options_.seconds > 0) {
    line += fmt::format("  {:.0f} s left", std::max(0.0, options_.seconds - stats.seconds));
  }
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(stderr);
}

void FuzzDisplay::found(const Failure& failure) const {
  clear_line();
  if (options_.json) return;
  std::printf("FOUND  %s%s  (case %lld, after %.1f s; minimizing)\n", failure.signature.c_str(),
              failure.is_known ? "  [known]" : "", static_cast<long long>(failure.found_at_case),
              failure.found_after_s);
  std::fflush(stdout);
}

void FuzzDisplay::print_json(const Failure& failure) const {
  std::printf(
      "{\"signature\":%s,\"sentence\":%s,\"predicate\":%s,\"file\":%s,\"known\":%s,"
      "\"found_after_s\":%.2f,\"found_at_case\":%lld,\"evaluations\":%d,\"minimized\":%s}\n",
      json_string(failure.signature).c_str(), json_string(failure.sentence).c_str(),
      json_string(failure.predicate).c_str(), json_string(failure.file).c_str(),
      failure.is_known ? "true" : "false", failure.found_after_s,
      static_cast<long long>(failure.found_at_case), failure.evaluations,
      failure.is_minimized ? "true" : "false");
}

void FuzzDisplay::done(const Failure& failure) const {
  clear_line();
  if (options_.json) {
    print_json(failure);
  } else {
    std::printf("DONE   %s\n  %s\n", failure.signature.c_str(), failure.sentence.c_str());
    if (!failure.predicate.empty()) std::printf("  %s\n", failure.predicate.c_str());
    std::printf("  %s  (%s)\n  replay: tools/replay %s%s\n", case_line(failure.smallest).c_str(),
                failure.evaluations == 0
                    ? "not minimized"
                    : fmt::format("{} evaluations", failure.evaluations).c_str(),
                failure.file.c_str(), pack_arguments(options_).c_str());
  }
  std::fflush(stdout);
}

void FuzzDisplay::clear_line() const {
  if (terminal_ && !options_.json) std::fprintf(stderr, "\r\033[K");
}

void FuzzDisplay::summary(const EngineResult& result) const {
  const EngineStats& stats = result.stats;
  std::fprintf(
      stderr,
      "%lld cases in %.1f s (%.1f/s): %lld passed, %lld failed, %lld refused, %lld errors; "
      "%lld run twice, %lld compared over meshes, %lld workers lost\n",
      static_cast<long long>(stats.cases), stats.seconds,
      stats.seconds > 0 ? static_cast<double>(stats.cases) / stats.seconds : 0,
      static_cast<long long>(stats.passed), static_cast<long long>(stats.failed),
      static_cast<long long>(stats.refused), static_cast<long long>(stats.errors),
      static_cast<long long>(stats.repeated), static_cast<long long>(stats.mesh_relations),
      static_cast<long long>(stats.lost_workers));
  std::fprintf(stderr, "%zu distinct failure%s in %s\n", result.failures.size(),
               result.failures.size() == 1 ? "" : "s", options_.output.c_str());
  if (stats.explored > 0) {
    std::fprintf(stderr,
                 "%lld cases explored on the twin; of the signatures that were new there %lld "
                 "confirmed on the real target, %lld not\n",
                 static_cast<long long>(stats.explored), static_cast<long long>(stats.confirmed),
                 static_cast<long long>(stats.not_confirmed));
  }
  if (stats.lost_ranges > 0) {
    std::fprintf(stderr, "%lld ranges of cases were lost with the twin's process\n",
                 static_cast<long long>(stats.lost_ranges));
  }
  if (!stats.first_error.empty()) {
    std::fprintf(stderr, "first error of our own: %s\n", stats.first_error.c_str());
  }
  if (result.too_many_signatures) {
    std::fprintf(stderr, "stopped: more than %zu signatures\n", kMaxSignatures);
  }
}

}  // namespace shardfuzz
