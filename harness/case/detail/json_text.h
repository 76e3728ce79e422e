// parse_json: JSON text to a tree, refusing what nlohmann's own reader lets pass.
//
// Guarantees: never throws; memory is at most a small multiple of the text. Refuses (with file,
// line and column, or the JSON pointer): text above bytes_max, a byte order mark, bad UTF-8,
// trailing garbage, comments, NaN and infinities, numbers beyond a double, duplicate keys, nesting
// deeper than kNestingMax (seen while reading, so deep text never builds a deep tree).
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "harness/base/result.h"

namespace shardfuzz::detail {

inline constexpr std::size_t kTextBytesMax = std::size_t{1} << 20;
inline constexpr int kNestingMax = 32;

// `bytes_max`: for files of other formats that may be longer than a case.
Result<nlohmann::json> parse_json(std::string_view text, std::string_view file_name,
                                  std::size_t bytes_max = kTextBytesMax);

// "/groups/0" + "a/b" -> "/groups/0/a~1b" (RFC 6901); control characters made printable.
std::string child_path(std::string_view path, std::string_view key);

// The `where` of an error: "case.json: /groups/0"; the file alone for the whole document.
std::string place(std::string_view file_name, std::string_view path);

}  // namespace shardfuzz::detail
