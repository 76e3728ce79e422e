// PackHook: one hook version of one pack, the unit in which a run says what it fuzzes.
//
// Guarantees: the pointers are those of all_packs(), valid until add_pack() is called again.
// Refuses names that are unknown, with the known ones.
// Use:  const auto chosen = parse_pack_hooks({"torchao_moe_fp8:one_arg", "plain"});
#pragma once

#include <string>
#include <vector>

#include "harness/base/result.h"
#include "harness/case/pack_info.h"

namespace shardfuzz {

struct PackHook {
  const PackInfo* pack = nullptr;
  const HookInfo* hook = nullptr;
  bool operator==(const PackHook&) const = default;
};

std::string to_text(const PackHook& pack_hook);  // "pack:hook"

// "pack" means each of its hooks; an empty list means all packs.
Result<std::vector<PackHook>> parse_pack_hooks(const std::vector<std::string>& names);

// A control must pass, so a run of nothing else is held to documented use (documented_use.h).
bool only_controls(const std::vector<PackHook>& chosen);

}  // namespace shardfuzz
