// Case files named on the command line: files and folders (every *.json below, in name order).
#pragma once

#include <string>
#include <vector>

#include "harness/base/result.h"
#include "harness/case/case.h"

namespace shardfuzz {

struct CaseFile {
  std::string path;
  Case the_case;
};

// Reads and validates all; the first broken one is the Error. known.json and schema.json are
// skipped.
Result<std::vector<CaseFile>> load_case_files(const std::vector<std::string>& paths);

// The files alone, unread; none is an Error.
Result<std::vector<std::string>> find_case_files(const std::vector<std::string>& paths);

// As load_case_files, but a folder without case files gives none.
Result<std::vector<CaseFile>> load_case_files_if_any(const std::vector<std::string>& paths);

}  // namespace shardfuzz
