// P6: outputs, gradients and updates equal those of the plain module on one device (the comparison
// itself is harness/real/shardfuzz_real/reference.py); the optimizer's tensors are the module's.
#include <fmt/format.h>

#include "harness/oracle/properties.h"

namespace shardfuzz {
namespace {

std::string sentence_of(const Event& event, const Reference& reference) {
  const std::string path = path_of(reference.group, reference.param);
  if (reference.missing) {
    return fmt::format("the {} of {} on rank {} is missing on one side (sharded or plain)",
                       reference.what, path, event.rank);
  }
  if (reference.first < 0) {
    return fmt::format("the {} of {} on rank {} differs from the plain module's", reference.what,
                       path, event.rank);
  }
  return fmt::format(
      "{} elements of the {} of {} on rank {} differ from the plain module's{}; the first "
      "is number {}: {} instead of {}",
      reference.differing, reference.what, path, event.rank,
      reference.exact ? " (bitwise equal by construction)" : " by more than the bound",
      reference.first, reference.got, reference.want);
}

}  // namespace

void check_reference(const Expected&, const Trace& trace, Findings* findings) {
  for_each<Reference>(trace, [&](const Event& event, const Reference& reference) {
    if (!reference.missing && reference.differing == 0) return;
    findings->push_back({.property = "P6",
                         .rank = event.rank,
                         .group = reference.group,
                         .param = reference.param,
                         .phase = reference.what,
                         .step = event.step,
                         .sentence = sentence_of(event, reference),
                         .event = event.index});
  });
  for_each<Stepped>(trace, [&](const Event& event, const Stepped& stepped) {
    if (stepped.optimizer_owns_it) return;
    findings->push_back(
        {.property = "P6",
         .rank = event.rank,
         .group = stepped.group,
         .param = stepped.param,
         .phase = event.phase,
         .step = event.step,
         .sentence = fmt::format("on rank {} the optimizer updates another tensor than "
                                 "the one the module uses for {}",
                                 event.rank, path_of(stepped.group, stepped.param)),
         .event = event.index});
  });
}

}  // namespace shardfuzz
