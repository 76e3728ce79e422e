// PackInfo: what a case may ask of a pack, known without Python.
//
// A *pack* is a short Python file (harness/real/packs) that says how to build a parameter of the
// code under test and how to call it. This header holds the same facts as data, so that generating,
// validating and minimizing cases needs no torch. A test (harness/real) compares each built-in
// entry with what the Python file says of itself. A pack outside the project is described by its
// file and added with add_pack() when the command line names it; a case file can only name packs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/case/case.h"

namespace shardfuzz {

struct HookInfo {
  std::string name;   // "shipped", "one_arg", "padded", ...
  int arguments = 0;  // of fsdp_pre_all_gather besides self: 1, 5, or 0 where there is no hook
  bool is_control = false;  // must pass: a failure is a finding about the harness or PyTorch
  bool casts = true;  // sends param_dtype (false: the original dtype, as the hook cannot know)
};

struct PackInfo {
  std::string name;
  std::string about;               // one line
  std::vector<HookInfo> hooks;     // the first is the default
  std::vector<CallPath> calls;     // the first is the default
  std::vector<DType> dtypes;       // original dtypes it can be built in
  int dim_multiple = 1;            // every dim but dim 0 must be a multiple of this
  bool is_extension = false;       // has FSDP hooks: int reshard and Shard(d>0) have special rules
  bool needs_param_dtype = false;  // needs mixed precision with a param_dtype
  bool gathers_values = true;      // gathered bytes are the shard cast to param_dtype
  bool has_scales = false;         // gathers more than one tensor
  int gathered_item_bytes = 0;     // of the first gathered tensor; 0: that of the dtype it sends
  int gathered_scale_bytes_a_row = 0;  // of the second, for each row of the padded shard
  int hook_all_reduce_elements =
      0;                      // of an all-reduce, in the original dtype, that the hook issues
  bool holds_values = false;  // keeps the values in the compute dtype beside what was gathered

  [[nodiscard]] bool casts_before_gather(std::string_view hook) const;
};

// All packs known to this process, the built-in ones first, in a fixed order.
const std::vector<PackInfo>& all_packs();
// nullptr where the name is unknown.
const PackInfo* find_pack(std::string_view name);
const HookInfo* find_hook(const PackInfo& pack, std::string_view hook);
// Adds or replaces a pack that a command line option named. Not thread safe: call before fuzzing.
void add_pack(PackInfo pack);

}  // namespace shardfuzz
