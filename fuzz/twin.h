// twin: random cases on two targets, real FSDP2 and its C++ twin, compared event by event.
//
// Each case that both can run is judged on both, and the two traces are compared
// (harness/trace/compare.h): verdict, signature, sizes, strides, storage bytes, collectives,
// digests and their order. A disagreement is shrunk while its name stays the same and kept as a
// case file; either the twin is wrong or the real code is not what its source seems to say.
// Guarantees: the cases depend on the seed and their number alone. An Error only where no worker
// can be used. Use:  const auto result = compare_targets(real, native, options, events);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fuzz/runner.h"
#include "harness/trace/compare.h"

namespace shardfuzz {

struct TwinOptions {
  std::uint64_t seed = 1;
  std::int64_t case_limit = 0;  // cases that both ran; 0: none
  std::function<bool()> is_out_of_time;
  std::function<bool()> is_interrupted;
  std::string output_folder;
  std::vector<std::string> packs;  // pack or pack:hook; empty: those that the twin has
  int world_max = 8;
  double minimize_seconds = 60;
  std::string command;  // kept as the origin of a file
};

struct Disagreement {
  std::string name;      // "unsharded.stride", "verdict", "signature": what it was shrunk by
  std::string sentence;  // of the smallest case
  Case smallest;
  std::string file;
  std::int64_t found_at_case = 0;
  int evaluations = 0;
};

struct TwinStats {
  double seconds = 0;
  std::int64_t compared = 0, events = 0, fields = 0;
  std::int64_t failed = 0, refused = 0;         // cases that both say so of
  std::int64_t lost = 0;                        // a process of one side died
  std::map<std::string, std::int64_t> skipped;  // by what the twin has not
  std::map<std::string, std::int64_t> exceptions_used;
};

struct TwinResult {
  TwinStats stats;
  std::vector<Disagreement> disagreements;  // one for each name
};

struct TwinEvents {
  std::function<void(const TwinStats&, std::size_t disagreements)> progress;
  std::function<void(const Disagreement&)> found;
};

// Both runners are idle. The sides are called "real" and "native".
Result<TwinResult> compare_targets(Runner& real, Runner& native, const TwinOptions& options,
                                   const TwinEvents& events);

// One case on both sides.
struct Compared {
  Verdict real, native;
  Comparison comparison;
  // Empty where both agree; else a name without numbers and a sentence.
  std::string name, sentence;
};
Result<Compared> compare_case(Runner& real, Runner& native, const Case& c);

// What may differ between real and native, each with its reason.
const std::vector<CompareException>& twin_exceptions();

}  // namespace shardfuzz
