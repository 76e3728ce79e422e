#include "fuzz/features_of.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace shardfuzz {
namespace {

Case plain_case() {
  Case c;
  c.groups = {{.name = "root", .params = {{.name = "w", .shape = {4, 3}}}}};
  c.groups[0].mixed_precision = {.param_dtype = DType::kBFloat16, .reduce_dtype = DType::kFloat32};
  return c;
}

bool has(const Case& c, const std::string& name) {
  const auto names = classes_of(c);
  return std::count(names.begin(), names.end(), name) == 1;
}

Swarm only(Feature feature) {
  Swarm swarm;
  swarm.set(feature, true);
  return swarm;
}

TEST(FeaturesOf, APlainCaseHasNone) { EXPECT_EQ(features_of(plain_case()), Swarm{}); }

TEST(FeaturesOf, TheDefaultLoopMayBeSpelledOut) {
  Case c = plain_case();
  c.operations = operations_of(c);
  EXPECT_EQ(features_of(c), Swarm{});
}

TEST(FeaturesOf, SeesOneFeatureAtATime) {
  using Change = void (*)(Case&);
  const std::vector<std::pair<Feature, Change>> changes{
      {Feature::kHsdp,
       [](Case& c) {
         c.mesh = {.shape = {2, 2}, .dim_names = {"replicate", "shard"}};
       }},
      {Feature::kLargeWorld, [](Case& c) { c.mesh.shape = {5}; }},
      {Feature::kFrozen, [](Case& c) { c.groups[0].params[0].requires_grad = false; }},
      {Feature::kBf16Original, [](Case& c) { c.groups[0].params[0].dtype = DType::kBFloat16; }},
      {Feature::kManyExperts, [](Case& c) { c.groups[0].params[0].shape[0] = 10; }},
      {Feature::kShardDim1, [](Case& c) { c.groups[0].params[0].shard_dim = 1; }},
      {Feature::kOtherCalls, [](Case& c) { c.groups[0].params[0].call = CallPath::kLinear; }},
      {Feature::kReshardInt, [](Case& c) { c.groups[0].reshard_after_forward = 2; }},
      {Feature::kReshardFalse, [](Case& c) { c.groups[0].reshard_after_forward = false; }},
      {Feature::kNoMixedPrecision, [](Case& c) { c.groups[0].mixed_precision = {}; }},
      {Feature::kBf16Reduce, [](Case& c) { c.groups[0].mixed_precision.reduce_dtype.reset(); }},
      {Feature::kUnevenTokens,
       [](Case& c) {
         c.batch.tokens_by_rank = {1, 2};
       }},
      {Feature::kIdleRanks,
       [](Case& c) {
         c.batch.tokens_by_rank = {1, 0};
       }},
      {Feature::kOddLoops, [](Case& c) { c.operations = {{.kind = OpKind::kForward}}; }},
      {Feature::kTwoForwards,
       [](Case& c) {
         c.operations = operations_of(c);
         c.operations.insert(c.operations.begin(), {.kind = OpKind::kForward});
       }},
      {Feature::kGradientAccumulation,
       [](Case& c) {
         const auto loop = operations_of(c);
         c.operations = {loop[0], loop[1], loop[0], loop[1], loop[2], loop[3]};
       }},
      {Feature::kAsyncUnshard,
       [](Case& c) {
         c.operations = operations_of(c);
         c.operations.insert(c.operations.begin(),
                             {.kind = OpKind::kUnshard, .group = "root", .flag = true});
       }},
      {Feature::kExplicitUnshard,
       [](Case& c) {
         c.operations = operations_of(c);
         c.operations.insert(c.operations.begin(), {.kind = OpKind::kUnshard, .group = "root"});
       }},
  };
  for (const auto& [feature, change] : changes) {
    Case c = plain_case();
    change(c);
    EXPECT_EQ(to_text(features_of(c)), to_text(only(feature)));
  }
}

TEST(ClassesOf, NamesTheSplit) {
  Case c = plain_case();
  EXPECT_TRUE(has(c, "split even"));
  EXPECT_TRUE(has(c, "rows > W"));
  EXPECT_FALSE(has(c, "shard short"));
  c.groups[0].params[0].shape = {5, 3};
  EXPECT_TRUE(has(c, "split uneven"));
  EXPECT_TRUE(has(c, "shard full"));
  EXPECT_TRUE(has(c, "shard short"));
  EXPECT_FALSE(has(c, "shard empty"));
  EXPECT_TRUE(has(c, "rows kW+1"));
  c.groups[0].params[0].shape = {1, 3};
  EXPECT_TRUE(has(c, "shard empty"));
  EXPECT_TRUE(has(c, "rows < W"));
}

TEST(ClassesOf, NamesTheRest) {
  const Case c = plain_case();
  for (const char* name :
       {"world 2", "nested groups 0", "reshard default", "precision bf16/fp32", "pack plain:none",
        "call mul", "original fp32", "dims 2", "steps 3", "tokens 16n", "schedule round_robin",
        "delivery early", "op forward", "default operations"}) {
    EXPECT_TRUE(has(c, name)) << name;
  }
}

}  // namespace
}  // namespace shardfuzz
