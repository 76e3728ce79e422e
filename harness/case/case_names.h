// How the closed sets of a case are spelled in files, options and reports.
//
// Guarantees: name_of and parse_name are inverse to each other for every enumerator; a new
// enumerator without a spelling is a compiler warning (-Wswitch) and fails case_names_test.
// Use:  DType dtype;  if (!parse_name("bf16", &dtype)) return unknown(names<DType>());
#pragma once

#include <string_view>
#include <vector>

#include "harness/case/case.h"

namespace shardfuzz {

std::string_view name_of(DType value);           // fp32 bf16 fp16 fp8_e4m3 uint8
std::string_view name_of(CallPath value);        // grouped_mm grouped_mm_no_offs bmm linear mul
std::string_view name_of(OpKind value);          // forward backward step zero_grad unshard ...
std::string_view name_of(DataKind value);        // integer normal
std::string_view name_of(OptimizerKind value);   // sgd sgd_momentum
std::string_view name_of(SchedulePolicy value);  // round_robin random priority
std::string_view name_of(Delivery value);        // early late

// Every enumerator, in the order of the enum. Specialised for the seven sets above.
template <typename Enum>
const std::vector<Enum>& all_of();
template <>
const std::vector<DType>& all_of();
template <>
const std::vector<CallPath>& all_of();
template <>
const std::vector<OpKind>& all_of();
template <>
const std::vector<DataKind>& all_of();
template <>
const std::vector<OptimizerKind>& all_of();
template <>
const std::vector<SchedulePolicy>& all_of();
template <>
const std::vector<Delivery>& all_of();

template <typename Enum>
std::vector<std::string_view> names() {
  std::vector<std::string_view> spelled;
  for (const Enum value : all_of<Enum>()) spelled.push_back(name_of(value));
  return spelled;
}

// False: not a name; *value is untouched.
template <typename Enum>
bool parse_name(std::string_view name, Enum* value) {
  for (const Enum candidate : all_of<Enum>()) {
    if (name_of(candidate) != name) continue;
    *value = candidate;
    return true;
  }
  return false;
}

// Which of its fields an operation uses; the others stay at their default.
struct OpArguments {
  bool group = false;
  bool param = false;  // always together with group
  bool flag = false;
};
OpArguments arguments_of(OpKind kind);

// The words that the free-text fields of a case may hold.
const std::vector<std::string_view>& known_origins();      // hand report fuzz
const std::vector<std::string_view>& known_dim_names();    // replicate shard tp ep
const std::vector<std::string_view>& known_targets();      // real native
const std::vector<std::string_view>& known_comms();        // sim nccl
const std::vector<std::string_view>& known_devices();      // cpu cuda
const std::vector<std::string_view>& expected_verdicts();  // pass fail refused invalid

}  // namespace shardfuzz
