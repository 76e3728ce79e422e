// CoverageTable: what each byte of a coverage file stands for, as a worker told in its hello.
//
// Source: harness/real/shardfuzz_real/coverage.py (table()) and coverage_rewrite.py (Counter); byte
// i of the file is counter i. Guarantees: a table that was read refers to files and counters that
// are in it. Refuses, as an Error: a hello without coverage, or with fields of another kind.
// Use:  const auto table = parse_coverage_table(*runner.hello());
#pragma once

#include <string>
#include <vector>

#include "harness/base/result.h"

namespace shardfuzz {

struct CoverageCounter {
  int file = 0;  // index into CoverageTable::files
  bool is_branch = false;
  int line = 0, last_line = 0;
  std::string function;  // qualified name
  std::string text;      // of a line: its source; of a branch: the arm
  int before = -1;       // the statement before it, or around it; of a branch: its statement
  std::string guard;     // of a block's first statement, and of the arm that opens it
};

struct CoverageTable {
  struct File {
    std::string name;           // as below site-packages
    int import_statements = 0;  // outside of functions: not counted
  };
  std::string torch, torchao;
  std::vector<File> files;
  std::vector<CoverageCounter> counters;
};

Result<CoverageTable> parse_coverage_table(const std::string& hello);

}  // namespace shardfuzz
