// Prints what C++ says of packs and documented refusals, as JSON: packs_test.py and
// refusals_test.py hold it against the Python side and the real code.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "harness/case/case_names.h"
#include "harness/case/pack_info.h"
#include "harness/oracle/refused_table.h"

namespace shardfuzz {
namespace {

nlohmann::json facts_of(const PackInfo& pack) {
  nlohmann::json hooks = nlohmann::json::array(), calls = hooks, dtypes = hooks;
  for (const HookInfo& hook : pack.hooks) {
    hooks.push_back({{"name", hook.name},
                     {"arguments", hook.arguments},
                     {"control", hook.is_control},
                     {"casts", hook.casts}});
  }
  for (const CallPath call : pack.calls) calls.push_back(name_of(call));
  for (const DType dtype : pack.dtypes) dtypes.push_back(name_of(dtype));
  return {{"name", pack.name},
          {"about", pack.about},
          {"hooks", hooks},
          {"calls", calls},
          {"dtypes", dtypes},
          {"dim_multiple", pack.dim_multiple},
          {"is_extension", pack.is_extension},
          {"needs_param_dtype", pack.needs_param_dtype},
          {"gathers_values", pack.gathers_values},
          {"has_scales", pack.has_scales},
          {"gathered_item_bytes", pack.gathered_item_bytes},
          {"gathered_scale_bytes_a_row", pack.gathered_scale_bytes_a_row},
          {"hook_all_reduce_elements", pack.hook_all_reduce_elements},
          {"holds_values", pack.holds_values}};
}

nlohmann::json facts() {
  nlohmann::json packs = nlohmann::json::array(), refusals = packs;
  for (const PackInfo& pack : all_packs()) packs.push_back(facts_of(pack));
  for (const Refusal& row : refused_table()) {
    refusals.push_back(
        {{"id", row.id}, {"type", row.type}, {"message", row.message}, {"where", row.where}});
  }
  return {{"packs", packs}, {"refusals", refusals}};
}

}  // namespace
}  // namespace shardfuzz

int main() { std::printf("%s\n", shardfuzz::facts().dump().c_str()); }
