// The case file: reading, writing and naming cases in the format `shardfuzz.case/1`.
//
// Guarantees: nothing here throws. parse_case(canonical_text(c)) is c (see "one spelling"), and
// canonical_text(parse_case(text)) is the same for every spelling of one case. A written file is
// whole or not there at all.
// Refuses: everything the format does not know, with the place (file, and JSON pointer or line and
// column), what is wrong and what to do. What a *readable* case may ask for is another question:
// validate.h.
// One spelling: operations that equal the default four are written as none and read as none. Text
// that is no valid UTF-8 (possible only in a Case made by a program) is written with U+FFFD.
// Use:  auto read = load_case(path);  if (!read) return read.error();  run(*read);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "harness/base/result.h"
#include "harness/case/case.h"

namespace shardfuzz {

// `file_name` is only for errors.
Result<Case> parse_case(std::string_view text, std::string_view file_name);

// Refuses a missing file, anything but a regular file (a pipe could block) and more than 1 MiB.
Result<Case> load_case(const std::string& path);

// Indented by two spaces, keys in the order of case.h, defaults left out but for the fields that a
// reader looks for first (schema, mesh, groups, name, shape), ends with a newline. This is the form
// of every stored file.
std::string canonical_text(const Case& c);

// The same fields on one line without a newline, for pipes.
std::string compact_text(const Case& c);

// One line with every field, defaults too, and every operation as an object, the default four where
// the case has none: for a program that should not need to know the defaults (the Python rank
// program). parse_case reads it back to the same case.
std::string full_text(const Case& c);

// Names the experiment and nothing else: name, origin, expect, predicate, history and the versions
// in environment (torch, torchao, nccl) do not change it; environment's target, comm and device do.
// Part of file names and reports, so its value for a given case is fixed for this format version.
std::uint64_t case_hash(const Case& c);

// Writes canonical_text to a temporary file in the same folder, syncs it and renames it to `path`.
// Refuses what load_case would refuse for its size.
Status save_case(const Case& c, const std::string& path);

}  // namespace shardfuzz
