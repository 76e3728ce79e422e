// shardfuzz replay FILE...: runs kept cases and says whether they still behave as their files say.
#include <cstdio>
#include <map>
#include <memory>
#include <set>

#include "reports/json_lines.h"
#include "reports/terminal.h"
#include "tools/case_files.h"
#include "tools/interrupt.h"
#include "tools/options.h"

namespace shardfuzz {
namespace {

struct Options : CommonOptions {
  std::vector<std::string> paths;
  int times = 1;
  bool quiet = false;
};

// What the runs of one file gave.
struct Tally {
  int runs = 0, unexpected = 0;
  std::set<std::string> digests;
  Verdict last, odd;  // odd: the last unexpected one
};

bool as_expected(const Case& c, const Verdict& verdict) {
  if (c.expect.verdict.empty()) return verdict.kind != VerdictKind::kError;
  if (name_of(verdict.kind) != c.expect.verdict) return false;
  return c.expect.signature.empty() || c.expect.signature == verdict.signature;
}

void count(const Case& c, const Verdict& verdict, Tally* tally) {
  ++tally->runs;
  if (!verdict.trace_digest.empty()) tally->digests.insert(verdict.trace_digest);
  tally->last = verdict;
  if (!as_expected(c, verdict)) {
    ++tally->unexpected;
    tally->odd = verdict;
  }
}

// Single-mesh cases go through the pool, several at a time; P12 cases one after the other.
Status run_all(Runner& runner, const std::vector<CaseFile>& files, int times,
               std::vector<Tally>* tallies) {
  std::vector<std::size_t> queue;
  for (int round = 0; round < times; ++round) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (files[i].the_case.compare_meshes.empty()) queue.push_back(i);
    }
  }
  std::size_t next = 0;
  while ((next < queue.size() || runner.pending_count() > 0) && !is_interrupted()) {
    while (next < queue.size() && runner.pending_count() < 8) {
      const std::uint64_t id = (static_cast<std::uint64_t>(next) << 20) | queue[next];
      const bool is_odd = next / files.size() % 2 != 0;  // every second round confirms the first
      const auto shortcuts = is_odd ? Shortcuts::kNever : Shortcuts::kInMostRuns;
      if (Status sent = runner.submit(id, files[queue[next]].the_case, shortcuts); !sent)
        return sent;
      ++next;
    }
    const auto finished = runner.poll(std::chrono::milliseconds(200));
    if (!finished) return finished.error();
    for (const auto& item : *finished) {
      const std::size_t i = item.id & 0xFFFFF;
      count(files[i].the_case, item.evaluated.verdict, &(*tallies)[i]);
    }
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].the_case.compare_meshes.empty()) continue;
    for (int round = 0; round < times && !is_interrupted(); ++round) {
      const auto evaluated = runner.evaluate(files[i].the_case);
      if (!evaluated) return evaluated.error();
      if (is_interrupted()) return Done{};  // the run may have been cut short
      count(files[i].the_case, evaluated->verdict, &(*tallies)[i]);
    }
  }
  return Done{};
}

bool is_good(const Tally& tally) {
  return tally.runs > 0 && tally.unexpected == 0 && tally.digests.size() <= 1;
}

void print(const CaseFile& file, const Tally& tally, const Options& options) {
  const Verdict& shown = tally.unexpected > 0 ? tally.odd : tally.last;
  if (options.json) {
    std::printf("{\"file\":%s,\"runs\":%d,\"unexpected\":%d,\"digests\":%zu,\"result\":%s}\n",
                json_string(file.path).c_str(), tally.runs, tally.unexpected, tally.digests.size(),
                verdict_json(shown).c_str());
    return;
  }
  const Expectation& expect = file.the_case.expect;
  std::printf("%s %s  (%d run%s, %zu trace digest%s%s%s)\n", is_good(tally) ? "ok  " : "DIFF",
              file.path.c_str(), tally.runs, tally.runs == 1 ? "" : "s", tally.digests.size(),
              tally.digests.size() == 1 ? "" : "s", tally.digests.empty() ? "" : " ",
              tally.digests.empty() ? "" : tally.digests.begin()->c_str());
  if (options.quiet && is_good(tally)) return;
  std::printf("     %s\n", case_line(file.the_case).c_str());
  if (!is_good(tally)) {
    std::printf("     expected %s %s, got in %d of %d runs:\n", expect.verdict.c_str(),
                expect.signature.c_str(), tally.unexpected, tally.runs);
  }
  std::printf("%s", verdict_text(shown, wants_colour() ? Style::kColour : Style::kPlain).c_str());
  if (!file.the_case.predicate.empty()) std::printf("  %s\n", file.the_case.predicate.c_str());
}

int run(Options& options) {
  Runner runner(options.runner);
  if (Status learned = learn_named_packs(runner, options); !learned) return fail(learned.error());
  const auto files = load_case_files(options.paths);
  if (!files) return fail(files.error());
  std::vector<Tally> tallies(files->size());
  if (Status ran = run_all(runner, *files, options.times, &tallies); !ran) return fail(ran.error());
  std::size_t good = 0, run = 0;
  for (std::size_t i = 0; i < files->size(); ++i) {
    if (tallies[i].runs == 0) continue;  // interrupted before its turn
    print((*files)[i], tallies[i], options);
    ++run;
    good += is_good(tallies[i]) ? 1 : 0;
  }
  if (!options.json) std::printf("%zu of %zu cases behave as their files say\n", good, run);
  if (good < run) return to_int(ExitCode::kDiffers);
  if (!is_interrupted()) return to_int(ExitCode::kDone);
  return fail({.what = fmt::format("interrupted; {} of {} cases were run", run, files->size())});
}

}  // namespace

void add_replay_command(CLI::App* app, int* exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app->add_subcommand("replay", "run kept cases and compare with the verdict in their files");
  command->add_option("files", options->paths, "case files or folders")->required();
  command
      ->add_option("--times", options->times, "runs of each case; all must give one trace digest")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_flag("--quiet", options->quiet, "one line for each case that is as expected");
  add_common_options(command, options.get());
  command->callback([options, exit_code] { *exit_code = run(*options); });
}

}  // namespace shardfuzz
