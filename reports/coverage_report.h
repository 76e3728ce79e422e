// Coverage report: which lines and branches of the code under test were reached, as numbers for
// each file, and what never was, each stretch with the reason.
//
// A *gap* is a stretch of statements of one function that can be reached only through its first
// one: a whole function, a block, or what follows a statement that never ended. What an `if` or a
// loop decides and no line shows (an `if` without else that is always true) is an *arm*.
// Guarantees: every line that was not reached is in exactly one gap; numbers are those of
// coverage_rewrite.py, where a line is one on which a statement of a function begins.
// Use:  const auto report = report_coverage(table, bytes, &reasons);  coverage_markdown(report,
// run)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reports/coverage_reasons.h"
#include "reports/coverage_table.h"

namespace shardfuzz {

struct CoverageShare {
  int reached = 0, total = 0;
  bool operator==(const CoverageShare&) const = default;
};

struct CoverageFile {
  std::string name;
  CoverageShare functions, lines, branches;
  int import_statements = 0;
};

struct CoverageGap {
  std::string file, function;
  int first_line = 0, last_line = 0;
  int line_count = 0;
  bool is_whole_function = false;  // never called; functions within it are part of it
  std::string text, guard;         // first line; what leads there
  std::string reason;              // empty: none is known
};

struct CoverageArm {
  std::string file, function;
  int line = 0;
  std::string arm;
};

struct CoverageReport {
  std::string torch, torchao;
  std::vector<CoverageFile> files;
  std::vector<CoverageGap> gaps;               // by file and line
  std::vector<CoverageArm> arms;               // never taken, and in no gap
  std::vector<CoverageReason> unused;          // reasons for what was reached, or is not there
  bool reasons_are_of_other_versions = false;  // torch or torchao
};

// How the numbers came about.
struct CoverageRun {
  std::string command;
  std::int64_t cases = 0, passed = 0, failed = 0, refused = 0, lost = 0, other = 0;
};

CoverageReport report_coverage(const CoverageTable& table, std::span<const std::uint8_t> reached,
                               CoverageReasons* reasons);
std::string coverage_markdown(const CoverageReport& report, const CoverageRun& run);
std::string coverage_json(const CoverageReport& report, const CoverageRun& run);

}  // namespace shardfuzz
