#include "harness/native/native_target.h"

#include <gtest/gtest.h>

#include "harness/case/validate.h"
#include "harness/native/supported.h"
#include "harness/oracle/judge.h"
#include "harness/oracle/properties.h"

namespace shardfuzz::native {
namespace {

ParamSpec experts(std::int64_t count, const std::string& hook, const std::string& name = "w") {
  return {.name = name,
          .shape = {count, 16, 16},
          .pack = "torchao_moe_fp8",
          .hook = hook,
          .call = CallPath::kGroupedMm};
}

MixedPrecision mixed() {
  return {.param_dtype = DType::kBFloat16, .reduce_dtype = DType::kFloat32};
}

// A root with a plain parameter and one nested group.
Case two_groups(std::vector<ParamSpec> params, int ranks) {
  Case c;
  c.mesh.shape = {ranks};
  c.groups.push_back(
      {.name = "root", .params = {{.name = "norm", .shape = {5}}}, .mixed_precision = mixed()});
  c.groups.push_back({.name = "experts", .params = std::move(params), .mixed_precision = mixed()});
  return c;
}

Verdict verdict_of(const Case& c, Planted planted = {}) {
  EXPECT_TRUE(validate(c).ok());
  EXPECT_EQ(unsupported(c), std::nullopt);
  NativeTarget target(planted);
  return judge(c, target.run(c));
}

std::string text_of(const Verdict& verdict) {
  std::string text = verdict.signature;
  for (const Finding& finding : verdict.findings) text += "\n" + finding.sentence;
  return text;
}

TEST(NativeTarget, ControlsPass) {
  for (const int ranks : {1, 2, 3, 4, 5}) {
    const Verdict verdict =
        verdict_of(two_groups({experts(3, "padded"), experts(4, "padded", "v")}, ranks));
    EXPECT_EQ(verdict.kind, VerdictKind::kPass) << ranks << text_of(verdict);
  }
}

TEST(NativeTarget, TheUncheckedHookGivesTheReportedStorageError) {
  const Verdict verdict = verdict_of(two_groups({experts(1, "one_arg")}, 2));
  EXPECT_EQ(verdict.signature,
            "torchao_moe_fp8:one_arg|P1|RuntimeError.setstorage-sizes-strides-storage-offset-and|"
            "empty");
  EXPECT_NE(text_of(verdict).find(
                "setStorage: sizes [1, 16, 16], strides [256, 16, 1], storage offset 0, and "
                "itemsize 4 requiring a storage size of 1024 are out of bounds for storage of size "
                "0"),
            std::string::npos);
}

TEST(NativeTarget, TheShippedHookRaisesOnTheShortRankAlone) {
  const Verdict verdict = verdict_of(two_groups({experts(3, "shipped")}, 2));
  EXPECT_EQ(verdict.signature,
            "torchao_moe_fp8:shipped|P1|AssertionError.when-a-parameter-is-unevenly-sharded|short");
  EXPECT_NE(text_of(verdict).find("rank 1 raises AssertionError in forward, rank 0 waits in "
                                  "all_gather"),
            std::string::npos);
}

// FSDP2 takes the process group of the state at the time of the wait: a gather on the smaller mesh
// is copied out for the whole one if the group is resharded in between.
TEST(NativeTarget, AReshardBetweenAnAsyncUnshardOfWhatWasKeptAndItsWaitRaises) {
  Case c;
  c.mesh.shape = {4};
  c.groups.push_back({.name = "root"});
  c.groups.push_back(
      {.name = "g", .params = {{.name = "w", .shape = {6, 4}}}, .reshard_after_forward = 2});
  c.steps = 1;
  c.operations = {{.kind = OpKind::kForward},
                  {.kind = OpKind::kUnshard, .group = "g", .flag = true},
                  {.kind = OpKind::kReshard, .group = "g"},
                  {.kind = OpKind::kForward}};
  const Verdict verdict = verdict_of(c);
  EXPECT_EQ(verdict.signature,
            "plain:none|raise|RuntimeError.split_with_sizes-expects-split_sizes-to-sum-exactly|"
            "full");
  EXPECT_NE(text_of(verdict).find("to 8 (input tensor's size at dimension 1), but got "
                                  "split_sizes=[16]"),
            std::string::npos);
}

TEST(NativeTarget, TheSameCaseGivesTheSameTrace) {
  const Case c = two_groups({experts(3, "padded"), experts(5, "padded", "v")}, 4);
  NativeTarget target;
  const std::string first = trace_digest(target.run(c));
  EXPECT_EQ(trace_digest(target.run(c)), first);
  EXPECT_EQ(trace_digest(NativeTarget().run(c)), first);
}

// A case on which each planted bug must show.
Case case_for(Bug bug) {
  Case c = two_groups({experts(3, "padded"), experts(7, "padded", "v")}, 3);
  switch (bug) {
    case Bug::kForgetsAccumulated:
      c.operations = {{.kind = OpKind::kGradientSync, .flag = false},
                      {.kind = OpKind::kForward},
                      {.kind = OpKind::kBackward},
                      {.kind = OpKind::kGradientSync, .flag = true},
                      {.kind = OpKind::kForward},
                      {.kind = OpKind::kBackward}};
      break;
    case Bug::kFreezesWrongly:
      c.operations = {{.kind = OpKind::kForward},
                      {.kind = OpKind::kBackward},
                      {.kind = OpKind::kZeroGrad},
                      {.kind = OpKind::kFreeze, .group = "experts", .param = "w"}};
      break;
    case Bug::kOrderSwapped:
      c.groups.push_back(
          {.name = "more", .params = {{.name = "w", .shape = {4}}}, .mixed_precision = mixed()});
      break;
    case Bug::kShortRankSkips: c.groups[1].params[0].shape[0] = 1; break;
    default: break;
  }
  return c;
}

TEST(NativeTarget, EveryPlantedBugIsSeen) {
  for (std::size_t i = 1; i < kBugNames.size(); ++i) {
    const auto bug = static_cast<Bug>(i);
    const Case c = case_for(bug);
    const Verdict faithful = verdict_of(c);
    EXPECT_EQ(faithful.kind, VerdictKind::kPass) << kBugNames[i] << text_of(faithful);
    EXPECT_EQ(verdict_of(c, {.bug = bug}).kind, VerdictKind::kFail) << kBugNames[i];
  }
}

TEST(Supported, NamesWhatIsMissing) {
  Case c = two_groups({experts(3, "padded")}, 2);
  EXPECT_EQ(unsupported(c), std::nullopt);
  c.groups[1].params[0].pack = "torchao_float8_linear";
  EXPECT_EQ(unsupported(c), "pack torchao_float8_linear");
  c = two_groups({experts(3, "padded")}, 2);
  c.environment.device = "cuda";
  EXPECT_EQ(unsupported(c), "device cuda");
}

}  // namespace
}  // namespace shardfuzz::native
