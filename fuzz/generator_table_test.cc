// What 10,000 generated cases are made of: printed, and bounded from below class by class.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "fuzz/features_of.h"
#include "fuzz/generator.h"
#include "fuzz/pack_hooks.h"
#include "harness/case/case_names.h"

namespace shardfuzz {
namespace {

constexpr int kCases = 10000;

using Table = std::map<std::string, int>;

template <typename Draw>
Table table_of(Draw draw_options) {
  Table table;
  for (int i = 0; i < kCases; ++i) {
    Choices choices = Choices::from_seed(static_cast<std::uint64_t>(i));
    for (const std::string& name : classes_of(generate(choices, draw_options()))) ++table[name];
  }
  return table;
}

void print(const char* title, const Table& table) {
  std::printf("%s, %% of %d cases\n", title, kCases);
  int column = 0;
  for (const auto& [name, count] : table) {
    std::printf("  %-34s %5.1f%s", name.c_str(), 100.0 * count / kCases,
                ++column % 3 == 0 ? "\n" : "");
  }
  std::printf("\n");
}

struct Bound {
  double percent_min;
  std::vector<std::string> names;
};

// A class that sinks below its bound is hardly tested any more.
std::vector<Bound> bounds() {
  std::vector<Bound> all{
      {2.5, {"world 1", "world 5", "world 6", "world 7", "world 8"}},
      {15, {"world 2", "world 3", "world 4"}},
      {0.5, {"mesh 2x2", "mesh 2x1", "mesh 1x2", "mesh 2x4", "mesh 2x3", "mesh 4x2"}},
      {8, {"nested groups 0", "nested groups 1", "nested groups 2", "nested groups 3"}},
      {30, {"split even", "split uneven", "shard full", "shard short", "shard empty"}},
      {25, {"rows < W", "rows = W", "rows > W", "rows kW+1", "rows kW-1"}},
      {1, {"rows > 32"}},
      {5, {"reshard default", "reshard true", "reshard false"}},
      {2, {"reshard 2"}},
      {0.3, {"reshard 3", "reshard 4"}},
      {40, {"precision bf16/fp32"}},
      {5, {"precision bf16/bf16", "precision bf16/none", "precision none/none"}},
      {2, {"precision none/fp32", "precision fp32/fp32"}},
      {30, {"original fp32"}},
      {20, {"original bf16", "steps 1", "steps 2", "steps 3"}},
      {2, {"steps > 3"}},
      {1, {"tokens 0"}},
      {20, {"tokens 16n", "tokens other"}},
      {0.5, {"mixed trainable dtypes", "unused on all ranks", "unused on some ranks"}},
      {30, {"default operations"}},
  };
  const auto pack_hooks = parse_pack_hooks({});
  for (const PackHook& each : pack_hooks.value()) {
    all.push_back({15, {"pack " + to_text(each)}});
  }
  for (const CallPath call : all_of<CallPath>()) {
    all.push_back({4, {"call " + std::string(name_of(call))}});
  }
  for (const OpKind kind : all_of<OpKind>()) {
    all.push_back({0.5, {"op " + std::string(name_of(kind))}});
  }
  for (const SchedulePolicy policy : all_of<SchedulePolicy>()) {
    all.push_back({20, {"schedule " + std::string(name_of(policy))}});
  }
  for (const Delivery delivery : all_of<Delivery>()) {
    all.push_back({30, {"delivery " + std::string(name_of(delivery))}});
  }
  for (const Feature feature : all_features()) {
    all.push_back({1, {"feature " + std::string(name_of(feature))}});
  }
  return all;
}

void expect_bounds(const Table& table, double share) {
  for (const Bound& bound : bounds()) {
    for (const std::string& name : bound.names) {
      const auto found = table.find(name);
      const double percent = found == table.end() ? 0 : 100.0 * found->second / kCases;
      EXPECT_GE(percent, share * bound.percent_min) << name;
    }
  }
}

TEST(GeneratorTable, EveryClassIsCommonEnough) {
  const Table table = table_of([] { return GeneratorOptions{}; });
  print("all features", table);
  expect_bounds(table, 1.0);
}

// As a run does it. Each feature is off half the time, and some need three to be on.
TEST(GeneratorTable, SwarmsReachEveryClass) {
  Random random(1);
  const Table table = table_of([&] { return GeneratorOptions{.swarm = draw_swarm(random)}; });
  print("random swarms", table);
  expect_bounds(table, 0.1);
}

}  // namespace
}  // namespace shardfuzz
