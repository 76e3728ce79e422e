#include "fuzz/native_packs.h"

#include "fuzz/pack_hooks.h"
#include "harness/native/supported.h"

namespace shardfuzz {
namespace {

bool has_pack(const PackHook& hook) {
  Case probe;
  probe.groups = {
      {.name = "root",
       .params = {{.name = "w", .shape = {1}, .pack = hook.pack->name, .hook = hook.hook->name}}}};
  return !native::unsupported(probe);
}

}  // namespace

Result<std::vector<std::string>> native_packs(const std::vector<std::string>& packs) {
  const auto chosen = parse_pack_hooks(packs);
  if (!chosen) return chosen.error();
  std::vector<std::string> names;
  for (const PackHook& hook : *chosen) {
    if (has_pack(hook)) names.push_back(to_text(hook));
  }
  return names;
}

}  // namespace shardfuzz
