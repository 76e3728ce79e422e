// From a hundred starts of one bug the minimizer comes to at most two cases, so that people get a
// report for each bug and not for each start. Two, since a parameter's pack and hook are never
// changed: one for each control. Held for bugs, planted in the native target, that show in one way;
// those that show in several (P4 in forward or in backward, say) have as many signatures, and a
// form for each, at least.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fuzz/numbered_case.h"
#include "harness/case/case_json.h"
#include "harness/case/form.h"
#include "harness/minimize/minimize.h"
#include "harness/native/native_target.h"
#include "harness/native/planted.h"
#include "harness/native/supported.h"
#include "harness/oracle/judge.h"

namespace shardfuzz {
namespace {

constexpr int kStarts = 100, kFormsMax = 2, kEvaluationsMax = 400;
constexpr std::int64_t kCasesMax = 40'000;

struct Start {
  Case the_case;
  std::string signature;
};

class Forms : public testing::TestWithParam<const char*> {
 protected:
  Forms() : target_({.bug = *native::bug_of(GetParam())}) {}

  Verdict verdict_of(const Case& c) {
    if (native::unsupported(c)) return {.kind = VerdictKind::kInvalid};
    return judge(c, target_.run(c), {.with_digest = false});
  }

  // The first hundred failing cases of the controls.
  std::vector<Start> starts() {
    const CaseSeries series{
        .seed = 1, .packs = {"plain", "torchao_moe_fp8:padded"}, .documented_use_only = true};
    std::vector<Start> found;
    for (std::int64_t number = 0; number < kCasesMax && found.size() < kStarts; ++number) {
      const Case c = numbered_case(series, number);
      const Verdict verdict = verdict_of(c);
      if (verdict.kind == VerdictKind::kFail) found.push_back({c, verdict.signature});
    }
    return found;
  }

  native::NativeTarget target_;
};

TEST_P(Forms, AreAtMostTwoFromAHundredStarts) {
  const std::vector<Start> all = starts();
  ASSERT_EQ(all.size(), static_cast<std::size_t>(kStarts));
  std::map<std::string, int> forms;
  int most = 0;
  for (const Start& start : all) {
    const MinimizeResult small =
        minimize(start.the_case, start.signature, [this](const Case& c) { return verdict_of(c); },
                 {.max_evaluations = kEvaluationsMax});
    EXPECT_EQ(small.end, MinimizeEnd::kFixedPoint) << start.the_case.name;
    most = std::max(most, small.evaluations);
    ++forms[start.signature + "\n" + form_text(small.smallest)];
  }
  std::printf("%s: %zu forms of %d starts, at most %d evaluations\n", GetParam(), forms.size(),
              kStarts, most);
  std::string shown;
  for (const auto& [form, count] : forms) shown += std::to_string(count) + " x " + form + "\n";
  EXPECT_LE(static_cast<int>(forms.size()), kFormsMax) << shown;
}

INSTANTIATE_TEST_SUITE_P(Bugs, Forms,
                         testing::Values("stale_short_shard", "divide_twice", "drops_last_row",
                                         "steps_copy"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace shardfuzz
