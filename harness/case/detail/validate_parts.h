// The parts of validate(), by section of the file, and the helpers they share.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/base/result.h"
#include "harness/case/case.h"

namespace shardfuzz::detail {

inline Error broken(std::string path, std::string what, std::string what_to_do) {
  return {.what = std::move(what), .where = std::move(path), .what_to_do = std::move(what_to_do)};
}

// [a-z][a-z0-9_]{0,63}: safe as a Python attribute and in "group.param".
bool is_name(std::string_view name);
inline constexpr std::string_view kNameRule =
    "a name begins with a-z and goes on with up to 63 of a-z, 0-9 and _";

// `index` is among [first, last]; else "{path}: {value} is not within first..last".
Status check_range(std::string_view path, std::int64_t value, std::int64_t first,
                   std::int64_t last);
// All entries of a list of numbers in [first, last].
Status check_ranges(std::string_view path, const std::vector<int>& values, std::int64_t first,
                    std::int64_t last);
Status check_no_repeats(std::string_view path, const std::vector<int>& values);
Status check_word(std::string_view path, std::string_view word,
                  const std::vector<std::string_view>& known);
// Empty or one entry a rank.
Status check_one_a_rank(std::string_view path, const std::vector<int>& values, int world_size);

Status validate_groups(const Case& c);      // names, parameters, policies; needs a valid mesh
Status validate_operations(const Case& c);  // needs valid groups

}  // namespace shardfuzz::detail
