// Can a file be written there? Asked before minutes are spent on what goes into it.
//
// Guarantees: a temporary file was made beside the named place and removed again; nothing is left.
// Refused: a folder that is missing or cannot be written to, a file path that is a folder.
// Use:  if (Status writable = check_writable_file(path); !writable) return writable.error();
#pragma once

#include <string>

#include "harness/base/result.h"

namespace shardfuzz {

// The same, made first where it is missing.
Status make_writable_folder(const std::string& folder);
Status check_writable_folder(const std::string& folder);
Status check_writable_file(const std::string& path);

}  // namespace shardfuzz
