// Compares two events of one kind field by field, and names the fields.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "harness/trace/event.h"

namespace shardfuzz {

struct FieldDifference {
  std::string name;   // "pre_all_gather.inputs.digest", as in comparison_names()
  std::string field;  // "inputs[0].digest"
  std::string left, right;
};

// Calls `found` for each field that differs, in the order of detail/event_fields.h, and returns how
// many were compared (lists of numbers are one field, other lists one for each entry and part).
// Texts are made only for what differs. Both payloads are of one kind (checked).
// number_bound: see CompareOptions.
std::int64_t compare_payloads(const Payload& left, const Payload& right, double number_bound,
                              const std::function<void(const FieldDifference&)>& found);

// Changes with every field, but for `sequence` and the fields named in `without`.
std::uint64_t content_hash(const Payload& payload, const std::set<std::string>& without);

// "unsharded.stride" and so on, of all kinds.
std::set<std::string> field_names();

// One line; long texts are cut to the part around place `at`.
std::string quoted(const std::string& text, std::size_t at = 0);

std::string list_text(const std::vector<int>& values);  // "[1, 16, 32]"

}  // namespace shardfuzz
