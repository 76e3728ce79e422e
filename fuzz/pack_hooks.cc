#include "fuzz/pack_hooks.h"

#include <algorithm>

namespace shardfuzz {
namespace {

std::vector<PackHook> hooks_of(const PackInfo& pack) {
  std::vector<PackHook> all;
  for (const HookInfo& hook : pack.hooks) all.push_back({.pack = &pack, .hook = &hook});
  return all;
}

std::string known_names() {
  std::string names;
  for (const PackInfo& pack : all_packs()) {
    for (const PackHook& each : hooks_of(pack)) names += (names.empty() ? "" : " ") + to_text(each);
  }
  return names;
}

Error unknown(const std::string& name) {
  return {.what = fmt::format("'{}' is no pack and no pack:hook", name),
          .where = "packs",
          .what_to_do = "known: " + known_names()};
}

}  // namespace

std::string to_text(const PackHook& pack_hook) {
  return pack_hook.pack->name + ":" + pack_hook.hook->name;
}

Result<std::vector<PackHook>> parse_pack_hooks(const std::vector<std::string>& names) {
  std::vector<PackHook> chosen;
  const auto add = [&](const PackHook& one) {
    if (std::find(chosen.begin(), chosen.end(), one) == chosen.end()) chosen.push_back(one);
  };
  if (names.empty()) {
    for (const PackInfo& pack : all_packs()) {
      for (const HookInfo& hook : pack.hooks) chosen.push_back({.pack = &pack, .hook = &hook});
    }
    return chosen;
  }
  for (const std::string& name : names) {
    const std::size_t colon = std::min(name.find(':'), name.size());
    const PackInfo* pack = find_pack(std::string_view(name).substr(0, colon));
    if (pack == nullptr) return unknown(name);
    if (colon == name.size()) {
      for (const PackHook& each : hooks_of(*pack)) add(each);
      continue;
    }
    const HookInfo* hook = find_hook(*pack, std::string_view(name).substr(colon + 1));
    if (hook == nullptr) return unknown(name);
    add({.pack = pack, .hook = hook});
  }
  return chosen;
}

bool only_controls(const std::vector<PackHook>& chosen) {
  return std::all_of(chosen.begin(), chosen.end(),
                     [](const PackHook& choice) { return choice.hook->is_control; });
}

}  // namespace shardfuzz
