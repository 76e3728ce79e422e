#include "fuzz/generator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <set>

#include "fuzz/features_of.h"
#include "fuzz/pack_hooks.h"
#include "harness/case/case_json.h"
#include "harness/case/pack_info.h"
#include "harness/case/validate.h"

namespace shardfuzz {
namespace {

constexpr int kCases = 10000;

Case case_of(std::uint64_t seed, const GeneratorOptions& options = {}) {
  Choices choices = Choices::from_seed(seed);
  return generate(choices, options);
}

std::string why_invalid(const Case& c) {
  const Status status = validate(c);
  return status ? "" : status.error().text() + "\n" + canonical_text(c);
}

TEST(Generator, EveryCaseIsValid) {
  Random swarms(1);
  for (int i = 0; i < kCases; ++i) {
    ASSERT_EQ(why_invalid(case_of(i)), "") << "seed " << i;
    const GeneratorOptions options{.world_max = 1 + i % kMaxWorldSize, .swarm = draw_swarm(swarms)};
    ASSERT_EQ(why_invalid(case_of(i, options)), "") << "seed " << i;
  }
}

TEST(Generator, AnyBytesGiveAValidCase) {
  Random random(1);
  for (int i = 0; i < kCases; ++i) {
    std::vector<std::uint8_t> bytes(random.below(200));
    // Few different values: libFuzzer's inputs look like that, and they reach corners.
    for (auto& byte : bytes) {
      byte = static_cast<std::uint8_t>(i % 2 == 0 ? random.below(256) : 255 * random.below(2));
    }
    Choices choices = Choices::from_bytes(bytes);
    ASSERT_EQ(why_invalid(generate(choices, {})), "") << "round " << i;
  }
}

TEST(Generator, SameSeedSameText) {
  std::set<std::string> texts;
  for (int i = 0; i < 1000; ++i) {
    const std::string text = canonical_text(case_of(i));
    ASSERT_EQ(text, canonical_text(case_of(i))) << "seed " << i;
    texts.insert(text);
  }
  EXPECT_EQ(texts.size(), 1000U);
}

// The canonical text is what is kept, so it must hold the whole case.
TEST(Generator, CasesReadBack) {
  for (int i = 0; i < 1000; ++i) {
    const Case c = case_of(i);
    ASSERT_EQ(parse_case(canonical_text(c), "case").value(), c) << "seed " << i;
  }
}

TEST(Generator, RecordedDrawsGiveTheSameCase) {
  for (int i = 0; i < kCases; ++i) {
    Choices choices = Choices::from_seed(i);
    const Case c = generate(choices, {});
    Choices again = Choices::from_draws(choices.draws());
    ASSERT_EQ(generate(again, {}), c) << "seed " << i;
  }
}

TEST(Generator, NoChoicesGiveTheSimplestCase) {
  Choices choices = Choices::from_bytes({});
  const Case c = generate(choices, {});
  EXPECT_EQ(c.groups.size(), 2U);
  EXPECT_TRUE(c.groups[0].params.empty());
  EXPECT_EQ(c.groups[1].params.size(), 1U);
  EXPECT_EQ(c.steps, 1);
  EXPECT_EQ(c.mesh.world_size(), 1);
  EXPECT_EQ(features_of(c), Swarm{}) << to_text(features_of(c));
}

TEST(Generator, AFeatureThatIsOffIsAbsent) {
  for (const Feature feature : all_features()) {
    GeneratorOptions options;
    options.swarm.set(feature, false);
    for (int i = 0; i < 2000; ++i) {
      const Case c = case_of(i, options);
      ASSERT_FALSE(uses(c, feature)) << name_of(feature) << "\n" << canonical_text(c);
    }
  }
}

TEST(Generator, RandomSwarmsLeaveOutWhatIsOff) {
  Random random(1);
  for (int i = 0; i < kCases; ++i) {
    const Swarm swarm = draw_swarm(random);
    const Case c = case_of(i, {.swarm = swarm});
    for (const Feature feature : all_features()) {
      if (swarm.on(feature)) continue;
      ASSERT_FALSE(uses(c, feature)) << name_of(feature) << "\n" << canonical_text(c);
    }
  }
}

// Often is a wish about what is on: it makes nothing appear that is off, and nothing rarer. Mixed
// dtypes hang on frozen parameters and have no share of their own.
TEST(Generator, WhatIsWantedOftenIsFrequent) {
  const auto count_in = [](Feature feature, const GeneratorOptions& options) {
    int count = 0;
    for (int i = 0; i < 1000; ++i) count += uses(case_of(i, options), feature) ? 1 : 0;
    return count;
  };
  for (const Feature feature : all_features()) {
    GeneratorOptions often;
    often.often.set(feature, true);
    const int usual = count_in(feature, {}), wanted = count_in(feature, often);
    EXPECT_GE(wanted, feature == Feature::kMixedDtype ? usual : 60) << name_of(feature);
    EXPECT_GE(wanted, usual) << name_of(feature);
    often.swarm.set(feature, false);
    EXPECT_EQ(count_in(feature, often), 0) << name_of(feature);
  }
  for (int i = 0; i < kCases; ++i) {
    ASSERT_EQ(why_invalid(case_of(i, {.often = all_on()})), "") << "seed " << i;
  }
}

// Features that need another one to appear.
TEST(Generator, AFeatureAloneAppears) {
  const std::map<Feature, std::vector<Feature>> needs{
      {Feature::kSkipAllReduce, {Feature::kHsdp, Feature::kGradientAccumulation}},
      {Feature::kReshardAfterBackward, {Feature::kGradientAccumulation}},
      {Feature::kReshardInt, {}},
  };
  for (const Feature feature : all_features()) {
    GeneratorOptions options{.swarm = {}};
    options.swarm.set(feature, true);
    if (const auto found = needs.find(feature); found != needs.end()) {
      for (const Feature needed : found->second) options.swarm.set(needed, true);
    }
    int count = 0;
    for (int i = 0; i < 2000; ++i) count += uses(case_of(i, options), feature) ? 1 : 0;
    EXPECT_GE(count, 20) << name_of(feature);
  }
}

TEST(Generator, KeepsToTheWorldItIsGiven) {
  for (int world_max = 1; world_max <= kMaxWorldSize; ++world_max) {
    std::set<int> seen;
    for (int i = 0; i < 4000; ++i) {
      const Case c = case_of(i, {.world_max = world_max});
      seen.insert(c.mesh.world_size());
      for (const auto& shape : c.compare_meshes) {
        int size = 1;
        for (const int n : shape) size *= n;
        ASSERT_LE(size, world_max);
      }
    }
    EXPECT_EQ(static_cast<int>(seen.size()), world_max);
    EXPECT_EQ(*seen.rbegin(), world_max);
  }
}

// With company: kMixedPacks puts plain parameters beside them.
TEST(Generator, KeepsToThePacksItIsGiven) {
  const std::vector<std::string> packs{"torchao_moe_fp8:one_arg", "data_and_scales"};
  std::map<std::string, int> mixed, alone;
  Swarm no_company = all_on();
  no_company.set(Feature::kMixedPacks, false);
  for (int i = 0; i < 2000; ++i) {
    for (const auto& [table, swarm] :
         {std::pair{&mixed, all_on()}, std::pair{&alone, no_company}}) {
      const Case c = case_of(i, {.packs = packs, .swarm = swarm});
      for (const GroupSpec& group : c.groups) {
        for (const ParamSpec& param : group.params) ++(*table)[param.pack + ":" + param.hook];
      }
    }
  }
  ASSERT_EQ(alone.size(), 2U);
  EXPECT_GT(alone["torchao_moe_fp8:one_arg"], 1000);
  EXPECT_GT(alone["data_and_scales:padded"], 1000);
  ASSERT_EQ(mixed.size(), 3U);
  EXPECT_GT(mixed["plain:none"], 300);
}

// Rows that a rank must put through one parameter.
std::int64_t rows_of(const Case& c, const ParamSpec& param, int rank) {
  const Batch& batch = c.batch;
  const int factor =
      batch.tokens_by_rank.empty() ? 1 : batch.tokens_by_rank[static_cast<std::size_t>(rank)];
  const std::int64_t rows = std::int64_t{batch.tokens_per_expert} * batch.top_k * factor;
  if (param.call == CallPath::kMul) return 0;
  if (param.call == CallPath::kLinear) return rows;
  std::int64_t experts = param.shape[0];
  if (param.call != CallPath::kGroupedMm) return rows * experts;
  for (const int empty : batch.empty_experts) experts -= empty < param.shape[0] ? 1 : 0;
  return rows * experts;
}

TEST(Generator, CasesAreSmall) {
  std::int64_t most_elements = 0, most_rows = 0, all_elements = 0;
  for (int i = 0; i < kCases; ++i) {
    const Case c = case_of(i);
    std::int64_t elements = 0;
    for (const GroupSpec& group : c.groups) {
      for (const ParamSpec& param : group.params) {
        std::int64_t product = 1;
        for (const std::int64_t size : param.shape) product *= size;
        if (param.tied_to.empty()) elements += product;  // else the same tensor again
        for (int rank = 0; rank < c.mesh.world_size(); ++rank) {
          most_rows = std::max(most_rows, rows_of(c, param, rank));
        }
      }
    }
    most_elements = std::max(most_elements, elements);
    all_elements += elements;
    ASSERT_LE(elements, kMaxGeneratedElements) << canonical_text(c);
    ASSERT_LE(c.operations.size(), 24U) << canonical_text(c);
  }
  std::printf("elements: mean %lld, most %lld; most rows %lld\n",
              static_cast<long long>(all_elements / kCases), static_cast<long long>(most_elements),
              static_cast<long long>(most_rows));
  EXPECT_LE(most_rows, kMaxGeneratedRows);
  EXPECT_GE(most_rows, kMaxGeneratedRows / 2);
  EXPECT_LE(all_elements / kCases, 16384);
}

// What torch and torchao refuse at once would teach nothing: strides of 16 bytes, rows by 16.
TEST(Generator, KernelsTakeTheShapes) {
  for (int i = 0; i < kCases; ++i) {
    const Case c = case_of(i);
    for (const GroupSpec& group : c.groups) {
      for (const ParamSpec& param : group.params) {
        if (param.call == CallPath::kMul) continue;
        ASSERT_EQ(c.batch.tokens_per_expert % find_pack(param.pack)->dim_multiple, 0)
            << canonical_text(c);
        if (param.call != CallPath::kGroupedMm && param.call != CallPath::kGroupedMmNoOffs) {
          continue;
        }
        ASSERT_EQ(param.shape[1] % 8, 0) << canonical_text(c);
        ASSERT_EQ(param.shape[2] % 8, 0) << canonical_text(c);
      }
    }
  }
}

// Weights change between a backward and the next forward only, and a group that was unsharded by
// hand goes through a forward before the optimizer steps: else FSDP2 promises nothing.
TEST(Generator, ProgramsKeepToWhatIsPromised) {
  for (int i = 0; i < kCases; ++i) {
    const Case c = case_of(i);
    bool loss_waits = false, unsharded = false, keeps = false;
    for (const Operation& op : operations_of(c)) {
      const bool changes = op.kind == OpKind::kLoad || op.kind == OpKind::kFreeze ||
                           op.kind == OpKind::kUnfreeze || op.kind == OpKind::kStep;
      ASSERT_FALSE(changes && loss_waits) << canonical_text(c);
      ASSERT_FALSE(op.kind == OpKind::kStep && (unsharded || keeps)) << canonical_text(c);
      if (op.kind == OpKind::kUnshard) unsharded = true;
      if (op.kind == OpKind::kForward) unsharded = false;
      if (op.kind == OpKind::kForward) loss_waits = true;
      if (op.kind == OpKind::kBackward) loss_waits = false;
      if (op.kind == OpKind::kReshardAfterBackward) keeps = !op.flag;
    }
    ASSERT_FALSE(unsharded || keeps) << canonical_text(c);
  }
}

TEST(Generator, FewCasesAreTheSame) {
  std::set<std::uint64_t> hashes, shapes;
  for (int i = 0; i < kCases; ++i) {
    Case c = case_of(i);
    hashes.insert(case_hash(c));
    c.seed = 0;
    c.schedule.seed = 0;
    shapes.insert(case_hash(c));
  }
  std::printf("of %d cases: %zu different, %zu without their seeds\n", kCases, hashes.size(),
              shapes.size());
  EXPECT_GE(hashes.size(), kCases - 5U);
  EXPECT_GE(shapes.size(), kCases * 97U / 100);
}

// Prints, since a bound would depend on the machine; the bound is what a slow one still does.
TEST(Generator, IsFast) {
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t sum = 0;
  constexpr int kMany = 50000;
  for (int i = 0; i < kMany; ++i) sum += case_of(i).seed;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("%.0f cases/s\n", kMany / seconds.count());
  EXPECT_NE(sum, 0U);
  EXPECT_GT(kMany / seconds.count(), 10000);
}

// A pack from outside the project may know one dtype and one call path only. The last test, since
// the pack stays.
TEST(Generator, TakesPacksAsTheyAre) {
  add_pack({.name = "odd",
            .about = "for this test",
            .hooks = {{.name = "only", .arguments = 5}},
            .calls = {CallPath::kBmm},
            .dtypes = {DType::kBFloat16},
            .dim_multiple = 3,
            .is_extension = true,
            .needs_param_dtype = true});
  int used = 0;
  for (int i = 0; i < kCases; ++i) {
    const Case c = case_of(i, {.packs = {"odd", "plain", "torchao_moe_fp8"}});
    ASSERT_EQ(why_invalid(c), "") << "seed " << i;
    for (const std::string& name : classes_of(c)) used += name == "pack odd:only" ? 1 : 0;
  }
  EXPECT_GT(used, kCases / 10);
}

}  // namespace
}  // namespace shardfuzz
