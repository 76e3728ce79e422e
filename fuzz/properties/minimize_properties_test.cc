// Laws of the minimizer (harness/minimize/minimize.h), for bugs made of any few conditions and
// starts that the fuzzer's own generator makes.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fuzz/pack_hooks.h"
#include "fuzz/properties/property.h"
#include "fuzz/properties/synthetic_bugs.h"
#include "harness/case/validate.h"
#include "harness/minimize/case_size.h"
#include "harness/minimize/minimize.h"

namespace shardfuzz {

void showValue(const SyntheticBug& bug,
               std::ostream& out) {  // NOLINT(readability-identifier-naming)
  out << bug.text();
}

namespace {

constexpr int kEvaluationsMax = 400;

SyntheticBug bug_in(const std::string& pack_hook) {
  const auto colon = pack_hook.find(':');
  return {.pack = pack_hook.substr(0, colon), .hook = pack_hook.substr(colon + 1)};
}

// A bug and a case on which it shows.
struct Found {
  SyntheticBug bug;
  Case start;
};

void showValue(const Found& found, std::ostream& out) {  // NOLINT(readability-identifier-naming)
  out << found.bug.text() << " shows on " << compact_text(found.start);
}

// Draws the case first and then some of the conditions that hold for it: so no draw is in vain,
// however rare the conditions.
Found any_found() {
  return *rc::gen::noShrink(rc::gen::exec([] {
    const Case start = generated_case(any_seed());
    Random random(any_seed());
    const std::vector<ParamRef> refs = params_of(start);
    const ParamSpec& suspect = at(start, refs[random.below(refs.size())]);
    SyntheticBug bug{.pack = suspect.pack, .hook = suspect.hook};
    std::vector<Condition> all = conditions_of(start, bug.suspects(start));
    for (std::uint64_t i = random.between(1, 4); i > 0 && !all.empty(); --i) {
      const auto picked = static_cast<std::ptrdiff_t>(random.below(all.size()));
      bug.conditions.push_back(all[static_cast<std::size_t>(picked)]);
      all.erase(all.begin() + picked);
    }
    return Found{std::move(bug), start};
  }));
}

struct Counted {
  const SyntheticBug& bug;
  int evaluations = 0, failing = 0;
  std::set<std::uint64_t> cases;

  Evaluate evaluate() {
    return [this](const Case& c) {
      const Verdict verdict = bug(c);
      RC_ASSERT(cases.insert(case_hash(c)).second);  // none twice
      RC_ASSERT(validate(c).ok());
      ++evaluations;
      failing += verdict.kind == VerdictKind::kFail;
      return verdict;
    };
  }
};

RC_GTEST_PROP(Minimize, TheResultFailsAlikeAndIsNoLarger, ()) {
  const Found found = any_found();
  Counted counted{found.bug};
  CaseSize before = size_of(found.start);
  MinimizeLimits limits;
  limits.on_smaller_case = [&](const MinimizeProgress& progress) {
    const CaseSize size = size_of(progress.smallest);
    RC_ASSERT(size < before);
    before = size;
  };
  const MinimizeResult result = minimize(found.start, kBugSignature, counted.evaluate(), limits);
  RC_ASSERT(found.bug.shows(result.smallest));
  RC_ASSERT(result.verdict == found.bug(result.smallest));
  RC_ASSERT(size_of(result.smallest) == before);
  RC_ASSERT(result.evaluations == counted.evaluations);
}

RC_GTEST_PROP(Minimize, ItEndsInAFixedPointWithinItsEvaluations, ()) {
  const Found found = any_found();
  const MinimizeResult result =
      minimize(found.start, kBugSignature, found.bug, {.max_evaluations = kEvaluationsMax});
  RC_ASSERT(result.end == MinimizeEnd::kFixedPoint);
  RC_ASSERT(result.evaluations <= kEvaluationsMax);

  Counted again{found.bug};
  const MinimizeResult second = minimize(result.smallest, kBugSignature, again.evaluate(),
                                         {.max_evaluations = kEvaluationsMax});
  RC_ASSERT(second.smallest == result.smallest);
  RC_ASSERT(second.end == MinimizeEnd::kFixedPoint);
  RC_ASSERT(again.failing == 1);  // the start itself
}

// ---- end forms ----------------------------------------------------------------------------------

constexpr std::size_t kStarts = 30;

const std::vector<std::string> kPackHooks{"plain:none", "torchao_moe_fp8:one_arg",
                                          "torchao_float8_linear:shipped",
                                          "data_and_scales:padded"};

// The conditions in which public reports were told.
std::vector<Condition> reported_conditions() {
  return {at_least_ranks(any_int(2, 4)),
          at_least_steps(any_int(2, 3)),
          at_least_params(any_int(2, 3)),
          some_rows_uneven(),
          some_rank_empty(),
          has_operation(OpKind::kBackward),
          has_operation(OpKind::kStep),
          has_operation(OpKind::kUnshard),
          has_operation(OpKind::kFullTensor),
          has_operation(OpKind::kSave)};
}

// One condition or two: those of reports, or any that hold together for some case. Not two that may
// hold for two different parameters: a case with both and a case with one of them are both
// smallest.
SyntheticBug any_simple_bug() {
  return *rc::gen::noShrink(rc::gen::exec([] {
    const std::string pack_hook = *rc::gen::elementOf(kPackHooks);
    SyntheticBug bug = bug_in(pack_hook);
    const Case model = generated_case(any_seed(), {.packs = {pack_hook}});
    const std::vector<Condition> conditions =
        any_int(0, 1) == 0 ? reported_conditions() : conditions_of(model, bug.suspects(model));
    const int last = static_cast<int>(conditions.size()) - 1;
    const auto first = static_cast<std::size_t>(any_int(0, last));
    const auto second = static_cast<std::size_t>(any_int(0, last));
    bug.conditions.push_back(conditions[first]);
    const bool of_two = conditions[first].is_of_one_param && conditions[second].is_of_one_param;
    if (second != first && !of_two) bug.conditions.push_back(conditions[second]);
    return bug;
  }));
}

// Cases of the bug's pack on which it shows; fewer than asked for where it is too rare.
std::vector<Case> starts_of(const SyntheticBug& bug, std::size_t count, Random* random) {
  constexpr int kDrawsMax = 20000;
  std::vector<Case> starts;
  for (int draw = 0; draw < kDrawsMax && starts.size() < count; ++draw) {
    const Case c = generated_case(random->next(), {.packs = {bug.pack + ":" + bug.hook}});
    if (bug.shows(c)) starts.push_back(c);
  }
  return starts;
}

RC_GTEST_PROP(Minimize, ManyStartsOfOneSimpleBugEndInAtMostTwoForms, ()) {
  const SyntheticBug bug = any_simple_bug();
  Random random(any_seed());
  const std::vector<Case> starts = starts_of(bug, kStarts, &random);
  RC_PRE(starts.size() == kStarts);
  std::map<std::string, int> forms;
  for (const Case& start : starts) {
    Case smallest =
        minimize(start, kBugSignature, bug, {.max_evaluations = kEvaluationsMax}).smallest;
    smallest.name.clear();
    smallest.origin = {};
    ++forms[compact_text(smallest)];
  }
  std::string text;
  for (const auto& [form, count] : forms) text += fmt::format("{} x {}\n", count, form);
  RC_LOG() << text;
  RC_ASSERT(forms.size() <= 2U);
}

RC_GTEST_PROP(Minimize, NumbersThatTheBugNeedsAreReachedAndNotExceeded, ()) {
  SyntheticBug bug = bug_in(*rc::gen::elementOf(kPackHooks));
  const int ranks = any_int(1, 4), steps = any_int(1, 3);
  const auto params = static_cast<std::size_t>(any_int(1, 3));
  bug.conditions = {at_least_ranks(ranks), at_least_steps(steps),
                    at_least_params(static_cast<int>(params))};
  Random random(any_seed());
  for (const Case& start : starts_of(bug, 1, &random)) {
    const Case smallest = minimize(start, kBugSignature, bug, {}).smallest;
    RC_LOG() << compact_text(smallest);
    RC_ASSERT(smallest.mesh == (Mesh{.shape = {ranks}}));
    RC_ASSERT(smallest.steps == steps);
    RC_ASSERT(smallest.groups.size() == 1U);
    RC_ASSERT(smallest.groups[0].params.size() == params);
    RC_ASSERT(operations_of(smallest).size() == 1U);
    for (const ParamSpec& param : smallest.groups[0].params) RC_ASSERT(rows_of(param) == 1);
  }
}

}  // namespace
}  // namespace shardfuzz

int main(int argc, char** argv) { return shardfuzz::run_properties(argc, argv, ""); }
