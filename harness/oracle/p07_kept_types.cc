// P7: the sharded local tensor keeps the pack's type and the original dtype, the unsharded parameter
// the pack's type and param_dtype, gradients are plain tensors in the original dtype, what is loaded
// is as saved, and requires_grad is kept.
#include <fmt/format.h>

#include "harness/oracle/properties.h"

namespace shardfuzz {
namespace {

class Checker {
 public:
  Checker(const Expected& expected, Findings* findings) : expected_(expected), findings_(findings) {}

  void expect(const Event& event, const std::string& group, const std::string& param,
              std::string_view what, std::string_view got, std::string_view want) {
    if (got == want) return;
    findings_->push_back({.property = "P7",
                          .rank = event.rank,
                          .group = group,
                          .param = param,
                          .phase = event.phase,
                          .step = event.step,
                          .sentence = fmt::format("on rank {} the {} of {} is {} instead of {}",
                                                  event.rank, what, path_of(group, param), got, want),
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

}  // namespace

void check_kept_types(const Expected& expected, const Trace& trace, Findings* findings) {
  Checker checker(expected, findings);
  for (const Event& event : trace.events) {
    if (const auto* sharded = std::get_if<Sharded>(&event.payload)) {
      const ParamView* view = checker.find(sharded->group, sharded->param);
      if (view == nullptr) continue;
      checker.expect(event, sharded->group, sharded->param, "sharded dtype", sharded->dtype,
                     torch_name(view->param->dtype));
      checker.expect(event, sharded->group, sharded->param, "type of the sharded tensor",
                     sharded->local_type, sharded->expected_type);
      checker.expect(event, sharded->group, sharded->param, "requires_grad",
                     sharded->requires_grad ? "true" : "false",
                     view->param->requires_grad ? "true" : "false");
    } else if (const auto* unsharded = std::get_if<Unsharded>(&event.payload)) {
      const ParamView* view = checker.find(unsharded->group, unsharded->param);
      if (view == nullptr) continue;
      checker.expect(event, unsharded->group, unsharded->param, "unsharded dtype", unsharded->dtype,
                     unsharded_dtype(expected, *view));
      checker.expect(event, unsharded->group, unsharded->param, "type of the unsharded parameter",
                     unsharded->type, unsharded->expected_type);
    } else if (const auto* gradient = std::get_if<Gradient>(&event.payload)) {
      const ParamView* view = checker.find(gradient->group, gradient->param);
      if (view == nullptr || !gradient->present) continue;
      checker.expect(event, gradient->group, gradient->param, "gradient dtype", gradient->dtype,
                     torch_name(view->param->dtype));
      checker.expect(event, gradient->group, gradient->param, "type of the local gradient",
                     gradient->type, "Tensor");
    } else if (const auto* loaded = std::get_if<Loaded>(&event.payload)) {
      checker.expect(event, loaded->group, loaded->param, "loaded state",
                     loaded->same_bytes && loaded->same_type ? "as saved" : "another", "as saved");
    }
  }
}

}  // namespace shardfuzz
