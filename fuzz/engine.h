// Engine: generates cases, runs them, and turns each new failure into a minimized case file.
//
// Guarantees: for one seed and one number of cases the same cases are run and the same files are
// written, whatever the number of workers (results are taken in the order of the cases; only the
// bounds in seconds can make a difference); a failure's file is on disk before it is minimized and
// is replaced when that is done, so an interrupt at any time loses nothing; one file for each
// signature; failures that are in the output folder already are not reported again (a run can be
// resumed). With an explorer, ranges of a second series of cases run on the native target beside
// the real one's; a signature that is new there is run on the real target and reported only if that
// fails too. Without cases of its own the real target only confirms and shrinks (the coverage
// engine), and failures are shrunk one at a time between ranges, so that none has to wait for the
// shrinking of those before it. A file that cannot be written ends the run with an Error. Failing
// cases and 1 % of the passing ones are run twice (P11); about 1 % of the passing ones are compared
// over meshes (P12). Refused: more than kMaxSignatures signatures in a run (it stops and says so).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fuzz/explorer.h"
#include "fuzz/generator.h"
#include "fuzz/runner.h"

namespace shardfuzz {

inline constexpr std::size_t kMaxSignatures = 200;
inline constexpr int kSteeredOneIn = 4;

// How far a run has come: another one with the same options can go on from there.
struct RunPosition {
  std::int64_t next_case = 0;   // of the real target's own series; those before it were judged
  std::int64_t next_range = 0;  // of the explorer
  bool operator==(const RunPosition&) const = default;
};

struct EngineOptions {
  std::uint64_t seed = 1;
  std::int64_t case_limit = 0;  // of the real target's series, or (no own cases) explored; 0: none
  RunPosition start;
  bool own_cases = true;                 // false: all cases come from the explorer
  int steered_one_in = kSteeredOneIn;    // of the real target's own cases (case_source.h); 0: none
  std::function<bool()> is_out_of_time;  // asked often
  std::function<bool()> is_interrupted;
  std::string output_folder;               // made if it is not there
  std::set<std::string> known_signatures;  // of repro_cases: reported as known
  std::vector<std::string> packs;          // generator option; empty: all
  int world_max = 8;
  bool documented_use_only = false;  // documented_use.h
  int minimize_evaluations = 400;
  double minimize_seconds = 60;
  std::string command;  // for the origin of found cases
  // Explores the same kind of cases on the native target; the real one runs what fails there. Null:
  // only the real target's own cases.
  Explorer* explorer = nullptr;
};

struct Failure {
  std::string signature, sentence, file, predicate;
  Case smallest;
  bool is_known = false;     // in repro_cases
  double found_after_s = 0;  // since the start of the run
  std::int64_t found_at_case = 0;
  int evaluations = 0;
  bool is_minimized = false;  // false: nobody had the time, or it cannot be (P11)
};

struct EngineStats {
  std::int64_t cases = 0, ranks = 0, passed = 0, failed = 0, refused = 0, invalid = 0, errors = 0;
  std::int64_t repeated = 0, mesh_relations = 0, lost_workers = 0, minimizer_evaluations = 0;
  std::int64_t explored = 0;       // cases that the native target ran
  std::int64_t lost_ranges = 0;    // ranges of the explorer in which its process died
  std::int64_t confirmed = 0;      // of those that failed there, on the real one with the signature
  std::int64_t not_confirmed = 0;  // with another: the twin is wrong, see `shardfuzz twin`
  double seconds = 0;
  std::string first_error;
};

// What the engine tells while it runs; all optional.
struct EngineEvents {
  std::function<void(const EngineStats&, std::size_t failures, std::size_t known)> progress;
  std::function<void(const Case&)> ran;             // a generated case on the real target, in order
  std::function<void(const RunPosition&)> came_to;  // often
  std::function<void(const Failure&)> found;        // before minimizing; its file exists
  std::function<void(const Failure&)> done;  // once for each that was found: its file is final
};

struct EngineResult {
  EngineStats stats;
  RunPosition position;
  std::vector<Failure> failures;  // in the order of finding
  bool too_many_signatures = false;
};

Result<EngineResult> fuzz(Runner& runner, const EngineOptions& options, const EngineEvents& events);

// A file name for a signature: "torchao_moe_fp8-shipped-p1-assertionerror-empty-1a2b3c.json".
std::string file_name_of(const std::string& signature);

}  // namespace shardfuzz
