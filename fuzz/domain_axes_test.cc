#include "fuzz/domain_axes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "fuzz/generator.h"

namespace shardfuzz {
namespace {

Evenness evenness(std::int64_t rows, int ranks) { return evenness_of({.shape = {rows, 4}}, ranks); }

TEST(DomainAxes, Evenness) {
  EXPECT_EQ(evenness(1, 1), Evenness::kOneShard);
  EXPECT_EQ(evenness(7, 1), Evenness::kOneShard);
  EXPECT_EQ(evenness(4, 4), Evenness::kEven);
  EXPECT_EQ(evenness(8, 4), Evenness::kEven);
  EXPECT_EQ(evenness(7, 4), Evenness::kOneMissing);  // 2 2 2 1
  EXPECT_EQ(evenness(3, 2), Evenness::kOneMissing);  // 2 1
  EXPECT_EQ(evenness(10, 4), Evenness::kShortLast);  // 3 3 3 1
  EXPECT_EQ(evenness(5, 4), Evenness::kEmptyRanks);  // 2 2 1 0
  EXPECT_EQ(evenness(6, 4), Evenness::kEmptyRanks);  // 2 2 2 0
  EXPECT_EQ(evenness(3, 4), Evenness::kFewerRows);   // 1 1 1 0
  EXPECT_EQ(evenness(1, 2), Evenness::kSingleRow);   // 1 0
  EXPECT_EQ(evenness_of({.shape = {1, 8}, .shard_dim = 1}, 4), Evenness::kOtherEven);
  EXPECT_EQ(evenness_of({.shape = {8, 1}, .shard_dim = 1}, 4), Evenness::kOtherUneven);
  EXPECT_EQ(evenness_of({.shape = {8, 1}, .shard_dim = 1}, 1), Evenness::kOneShard);
}

// Against the rows themselves, dealt out one rank after the other.
TEST(DomainAxes, EvennessIsWhatTheRowsSay) {
  for (int ranks = 2; ranks <= 16; ++ranks) {
    for (std::int64_t rows = 1; rows <= 300; ++rows) {
      std::vector<std::int64_t> held;
      const std::int64_t most = (rows + ranks - 1) / ranks;
      for (std::int64_t left = rows; static_cast<int>(held.size()) < ranks; left -= held.back()) {
        held.push_back(std::min(left, most));
      }
      const auto empty = std::count(held.begin(), held.end(), 0);
      const Evenness expected = held.front() == held.back()             ? Evenness::kEven
                                : empty == 0 && held.back() == most - 1 ? Evenness::kOneMissing
                                : empty == 0                            ? Evenness::kShortLast
                                : rows == 1                             ? Evenness::kSingleRow
                                : most == 1                             ? Evenness::kFewerRows
                                                                        : Evenness::kEmptyRanks;
      ASSERT_EQ(evenness(rows, ranks), expected) << rows << " rows on " << ranks;
    }
  }
}

TEST(DomainAxes, Dtypes) {
  const auto fp32 = DType::kFloat32;
  const auto bf16 = DType::kBFloat16;
  EXPECT_EQ(dtypes_of(fp32, {}), Dtypes::kWideAsIs);
  EXPECT_EQ(dtypes_of(bf16, {}), Dtypes::kNarrowAsIs);
  EXPECT_EQ(dtypes_of(fp32, {.param_dtype = fp32}), Dtypes::kWideKept);
  EXPECT_EQ(dtypes_of(fp32, {.reduce_dtype = fp32}), Dtypes::kWideKept);
  EXPECT_EQ(dtypes_of(bf16, {.param_dtype = bf16}), Dtypes::kNarrowKept);
  EXPECT_EQ(dtypes_of(bf16, {.param_dtype = bf16, .reduce_dtype = fp32}), Dtypes::kKeptReduced);
  EXPECT_EQ(dtypes_of(fp32, {.reduce_dtype = bf16}), Dtypes::kKeptReduced);
  EXPECT_EQ(dtypes_of(fp32, {.param_dtype = bf16}), Dtypes::kNarrowed);
  EXPECT_EQ(dtypes_of(fp32, {.param_dtype = bf16, .reduce_dtype = bf16}), Dtypes::kNarrowed);
  EXPECT_EQ(dtypes_of(fp32, {.param_dtype = bf16, .reduce_dtype = fp32}), Dtypes::kNarrowedReduced);
  EXPECT_EQ(dtypes_of(bf16, {.param_dtype = fp32, .reduce_dtype = fp32}), Dtypes::kWidened);
  EXPECT_EQ(dtypes_of(bf16, {.param_dtype = DType::kFloat16}), Dtypes::kNarrowKept);
  EXPECT_EQ(dtypes_of(DType::kUInt8, {.param_dtype = bf16}), Dtypes::kWidened);
}

TEST(DomainAxes, Reshard) {
  EXPECT_EQ(reshard_of(std::monostate{}, true, 4), Reshard::kRootDefault);
  EXPECT_EQ(reshard_of(std::monostate{}, false, 4), Reshard::kNestedDefault);
  EXPECT_EQ(reshard_of(true, true, 4), Reshard::kRootTrue);
  EXPECT_EQ(reshard_of(false, false, 4), Reshard::kNestedFalse);
  EXPECT_EQ(reshard_of(2, true, 4), Reshard::kRootInt);
  EXPECT_EQ(reshard_of(2, false, 4), Reshard::kNestedInt);
  EXPECT_EQ(reshard_of(1, false, 4), Reshard::kNestedFalse);
  EXPECT_EQ(reshard_of(4, false, 4), Reshard::kNestedTrue);
  EXPECT_EQ(reshard_of(1, true, 1), Reshard::kRootFalse);
}

TEST(DomainAxes, MeshAndSteps) {
  EXPECT_EQ(mesh_class_of({.shape = {1}}), MeshClass::kOne);
  EXPECT_EQ(mesh_class_of({.shape = {2}}), MeshClass::kTwo);
  EXPECT_EQ(mesh_class_of({.shape = {7}}), MeshClass::kOdd);
  EXPECT_EQ(mesh_class_of({.shape = {6}}), MeshClass::kFourUp);
  EXPECT_EQ(mesh_class_of({.shape = {1, 2}, .dim_names = {"replicate", "shard"}}),
            MeshClass::kHsdp);
  EXPECT_EQ(mesh_class_of({.shape = {2, 1}, .dim_names = {"shard", "tp"}}), MeshClass::kTwo);
  EXPECT_EQ(steps_class_of(1), StepsClass::kOne);
  EXPECT_EQ(steps_class_of(2), StepsClass::kTwo);
  EXPECT_EQ(steps_class_of(3), StepsClass::kMore);
  EXPECT_EQ(steps_class_of(5), StepsClass::kMore);
}

TEST(DomainAxes, Experts) {
  const auto experts = [](std::int64_t count, int ranks) {
    return experts_of({.shape = {count, 8, 8}, .call = CallPath::kGroupedMm}, ranks);
  };
  EXPECT_EQ(experts(1, 4), Experts::kOne);
  EXPECT_EQ(experts(1, 1), Experts::kOne);
  EXPECT_EQ(experts(3, 4), Experts::kBelow);
  EXPECT_EQ(experts(4, 4), Experts::kMultiple);
  EXPECT_EQ(experts(5, 4), Experts::kOneOver);
  EXPECT_EQ(experts(6, 4), Experts::kOther);
  EXPECT_EQ(experts(7, 4), Experts::kOneUnder);
  EXPECT_EQ(experts(3, 2), Experts::kOneOver);
  EXPECT_EQ(experts(5, 1), Experts::kMultiple);
  EXPECT_EQ(experts_of({.shape = {4, 8}, .call = CallPath::kLinear}, 4), Experts::kNone);
  EXPECT_EQ(experts_of({.shape = {4, 8, 8}, .call = CallPath::kMul}, 4), Experts::kNone);
}

TEST(DomainAxes, Operations) {
  const auto class_with = [](std::vector<Operation> before) {
    Case c;
    c.operations = operations_of(c);
    c.operations.insert(c.operations.begin(), before.begin(), before.end());
    return operations_class_of(c);
  };
  const Operation unshard{.kind = OpKind::kUnshard, .group = "root"};
  const Operation prefetch{.kind = OpKind::kPrefetchForward, .group = "g1"};
  const Operation freeze{.kind = OpKind::kFreeze, .group = "root", .param = "w"};
  EXPECT_EQ(operations_class_of({}), OperationsClass::kPlain);
  EXPECT_EQ(class_with({}), OperationsClass::kPlain);
  EXPECT_EQ(class_with({unshard}), OperationsClass::kUnshard);
  EXPECT_EQ(class_with({{.kind = OpKind::kUnshard, .group = "root", .flag = true}}),
            OperationsClass::kAsync);
  EXPECT_EQ(class_with({prefetch}), OperationsClass::kPrefetch);
  EXPECT_EQ(class_with({freeze}), OperationsClass::kFreeze);
  EXPECT_EQ(class_with({{.kind = OpKind::kSave}}), OperationsClass::kSaveLoad);
  EXPECT_EQ(class_with({{.kind = OpKind::kForward}}), OperationsClass::kAccumulation);
  EXPECT_EQ(class_with({{.kind = OpKind::kStep}}), OperationsClass::kOddLoop);
  EXPECT_EQ(class_with({unshard, prefetch}), OperationsClass::kMixed);
  EXPECT_EQ(class_with({freeze, freeze}), OperationsClass::kFreeze);
}

// No feature of the operations is left out of the classes: else such a case would count as plain.
TEST(DomainAxes, EveryFeatureOfTheOperationsHasAClass) {
  Swarm classified;
  for (int i = 0; i <= static_cast<int>(OperationsClass::kMixed); ++i) {
    for (const Feature feature : features_for(static_cast<OperationsClass>(i))) {
      EXPECT_FALSE(classified.on(feature)) << name_of(feature) << " is in two classes";
      classified.set(feature, true);
    }
  }
  Swarm without = all_on();
  for (const Feature feature : all_features()) {
    if (classified.on(feature)) without.set(feature, false);
  }
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Choices choices = Choices::from_seed(seed);
    ASSERT_TRUE(generate(choices, {.swarm = without}).operations.empty()) << "seed " << seed;
  }
}

TEST(DomainAxes, NamesAreWordsAndDifferent) {
  for (int i = 0; i < kAxisCount; ++i) {
    const auto axis = static_cast<Axis>(i);
    if (axis == Axis::kHook) continue;
    std::set<std::string_view> names, phrases;
    for (const ClassName& each : class_names(axis)) {
      EXPECT_EQ(each.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string_view::npos)
          << each.name;
      EXPECT_LE(each.phrase.size(), 30U) << each.phrase;
      names.insert(each.name);
      phrases.insert(each.phrase);
    }
    EXPECT_EQ(names.size(), class_names(axis).size()) << name_of(axis);
    EXPECT_EQ(phrases.size(), names.size()) << name_of(axis);
  }
}

}  // namespace
}  // namespace shardfuzz
