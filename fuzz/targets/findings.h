// Findings of a libFuzzer process: one case file for each signature, told when it is found and
// again, as a table, when the process ends.
//
// Guarantees: a signature counts once a process; a file that is there already is left as it is (it
// may be minimized). A file that cannot be written is told and costs nothing but the file.
// Refuses nothing. Thread rule: one thread.
// Use:  if (findings.note(c, verdict)) ...;  findings.print_table();
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "harness/case/case.h"
#include "harness/oracle/verdict.h"

namespace shardfuzz {

// How the files and the table name where a finding comes from.
struct FindingsOrigin {
  std::string target;   // "native_case"
  std::string note;     // for the case's origin
  std::string skipped;  // what cases that are not run are: "not for the native target"
};

class Findings {
 public:
  // The folder is made when the first file is written.
  Findings(std::string folder, FindingsOrigin origin);

  void count_execution() { ++executions_; }
  void count_skipped() { ++skipped_; }
  // A verdict of a case that was run; true where it is a fail with a signature not seen before.
  bool note(const Case& c, const Verdict& verdict);

  void print_table() const;  // on stderr, where libFuzzer writes

 private:
  struct Found {
    std::string signature;
    double seconds = 0;  // since this object was made
    std::int64_t executions = 0;
  };

  void write(Case c, const Verdict& verdict) const;

  std::string folder_;
  FindingsOrigin origin_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::int64_t executions_ = 0, skipped_ = 0, passed_ = 0, failed_ = 0, refused_ = 0;
  std::set<std::string> seen_;
  std::vector<Found> found_;
};

}  // namespace shardfuzz
