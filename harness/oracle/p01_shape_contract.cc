// P1: on every rank the pre-all-gather hook sends what the pack declares, whatever the hook's
// version.
//
// PyTorch checks hooks with five arguments only, and only on ranks whose shard is short; hooks with
// one argument never (torch/distributed/fsdp/_fully_shard/_fsdp_param.py,
// FSDPParam.all_gather_inputs).
#include <fmt/format.h>

#include "harness/oracle/properties.h"

namespace shardfuzz {
namespace {

std::string tensors_text(const std::vector<TensorNote>& tensors) {
  std::string text;
  for (const TensorNote& tensor : tensors) {
    if (!text.empty()) text += " + ";
    text += fmt::format("{} {} ({} bytes)", shape_text(tensor.shape), tensor.dtype, tensor.bytes);
  }
  return text.empty() ? "nothing" : text;
}

bool as_declared(const PreAllGather& sent) {
  if (sent.inputs.size() != sent.declared.size()) return false;
  for (std::size_t i = 0; i < sent.inputs.size(); ++i) {
    if (sent.inputs[i].shape != sent.declared[i].shape) return false;
    if (sent.inputs[i].dtype != sent.declared[i].dtype) return false;
  }
  return true;
}

}  // namespace

void check_shape_contract(const Expected& expected, const Trace& trace, Findings* findings) {
  for_each<PreAllGather>(trace, [&](const Event& event, const PreAllGather& sent) {
    if (sent.from_post_forward || as_declared(sent)) return;
    const std::string_view shard = expected.class_name(sent.group, sent.param, event.rank);
    findings->push_back({.property = "P1",
                         .rank = event.rank,
                         .group = sent.group,
                         .param = sent.param,
                         .phase = event.phase,
                         .step = event.step,
                         .sentence = fmt::format(
                             "rank {} ({} shard) sends {} for {}, where every rank must send {}",
                             event.rank, shard, tensors_text(sent.inputs),
                             path_of(sent.group, sent.param), tensors_text(sent.declared)),
                         .event = event.index});
  });
}

}  // namespace shardfuzz
