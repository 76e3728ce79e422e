// P7: the sharded local tensor keeps the pack's type and the original dtype, the unsharded
// parameter the pack's type and param_dtype, gradients are plain tensors in the original dtype,
// what is loaded is as saved, and requires_grad is kept (judged where the case itself never changes
// it).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "harness/oracle/properties.h"

namespace shardfuzz {
namespace {

class Checker {
 public:
  Checker(const Expected& expected, Findings* findings)
      : expected_(expected), findings_(findings) {}

  void expect(const Event& event, const std::string& group, const std::string& param,
              std::string_view what, std::string_view got, std::string_view want) {
    if (got == want) return;
    findings_->push_back(
        {.property = "P7",
         .rank = event.rank,
         .group = group,
         .param = param,
         .phase = event.phase,
         .step = event.step,
         .sentence = fmt::format("on rank {} the {} of {} is {} instead of {}", event.rank, what,
                                 path_of(group, param), got, want),
         .event = event.index});
  }

  [[nodiscard]] const ParamView* find(const std::string& group, const std::string& param) const {
    return expected_.find(group, param);
  }

 private:
  const Expected& expected_;
  Findings* findings_;
};

// The dtype of an unsharded parameter: what its hook sends (a hook without the policy cannot cast).
std::string_view unsharded_dtype(const Expected& expected, const ParamView& view) {
  const bool casts = view.pack == nullptr || view.pack->casts_before_gather(view.param->hook) ||
                     !view.pack->gathers_values;
  return torch_name(casts ? expected.sent_dtype(view) : view.param->dtype);
}

std::string_view flag_text(bool flag) { return flag ? "true" : "false"; }

bool case_freezes(const Expected& expected) {
  const auto& operations = expected.operations();
  return std::any_of(operations.begin(), operations.end(), [](const Operation& operation) {
    return operation.kind == OpKind::kFreeze || operation.kind == OpKind::kUnfreeze;
  });
}

// Type of the sharded tensor that the pack declares, by path.
using ShardedTypes = std::map<std::string, std::string>;

// The optimizer step must not change what the sharded parameter is.
void check_stepped(Checker& checker, const Event& event, const Stepped& stepped,
                   const ShardedTypes& types, bool freezes) {
  const ParamView* view = checker.find(stepped.group, stepped.param);
  if (view == nullptr) return;
  checker.expect(event, stepped.group, stepped.param, "dtype after the step", stepped.dtype,
                 torch_name(view->param->dtype));
  if (const auto type = types.find(path_of(stepped.group, stepped.param)); type != types.end()) {
    checker.expect(event, stepped.group, stepped.param, "type after the step", stepped.type,
                   type->second);
  }
  if (!freezes) {
    checker.expect(event, stepped.group, stepped.param, "requires_grad after the step",
                   flag_text(stepped.requires_grad), flag_text(view->param->requires_grad));
  }
}

}  // namespace

void check_kept_types(const Expected& expected, const Trace& trace, Findings* findings) {
  Checker checker(expected, findings);
  const bool freezes = case_freezes(expected);
  ShardedTypes sharded_types;
  for (const Event& event : trace.events) {
    if (const auto* sharded = std::get_if<Sharded>(&event.payload)) {
      const ParamView* view = checker.find(sharded->group, sharded->param);
      if (view == nullptr) continue;
      checker.expect(event, sharded->group, sharded->param, "sharded dtype", sharded->dtype,
                     torch_name(view->param->dtype));
      checker.expect(event, sharded->group, sharded->param, "type of the sharded tensor",
                     sharded->local_type, sharded->expected_type);
      sharded_types[path_of(sharded->group, sharded->param)] = sharded->expected_type;
      checker.expect(event, sharded->group, sharded->param, "requires_grad",
                     flag_text(sharded->requires_grad), flag_text(view->param->requires_grad));
    } else if (const auto* unsharded = std::get_if<Unsharded>(&event.payload)) {
      const ParamView* view = checker.find(unsharded->group, unsharded->param);
      if (view == nullptr) continue;
      checker.expect(event, unsharded->group, unsharded->param, "unsharded dtype", unsharded->dtype,
                     unsharded_dtype(expected, *view));
      checker.expect(event, unsharded->group, unsharded->param, "type of the unsharded parameter",
                     unsharded->type, unsharded->expected_type);
      if (!freezes) {
        checker.expect(event, unsharded->group, unsharded->param, "unsharded requires_grad",
                       flag_text(unsharded->requires_grad), flag_text(view->param->requires_grad));
      }
    } else if (const auto* gradient = std::get_if<Gradient>(&event.payload)) {
      const ParamView* view = checker.find(gradient->group, gradient->param);
      if (view == nullptr || !gradient->present) continue;
      checker.expect(event, gradient->group, gradient->param, "gradient dtype", gradient->dtype,
                     torch_name(view->param->dtype));
      checker.expect(event, gradient->group, gradient->param, "type of the local gradient",
                     gradient->type, "Tensor");
    } else if (const auto* stepped = std::get_if<Stepped>(&event.payload)) {
      check_stepped(checker, event, *stepped, sharded_types, freezes);
    } else if (const auto* loaded = std::get_if<Loaded>(&event.payload)) {
      checker.expect(event, loaded->group, loaded->param, "loaded state",
                     loaded->same_bytes && loaded->same_type ? "as saved" : "another", "as saved");
    }
  }
}

}  // namespace shardfuzz
