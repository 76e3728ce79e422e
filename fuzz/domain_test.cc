#include "fuzz/domain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "fuzz/documented_use.h"
#include "fuzz/generator.h"
#include "harness/case/case_json.h"
#include "harness/case/case_names.h"
#include "harness/case/validate.h"

namespace shardfuzz {
namespace {

// One plain parameter [3, 4] in the root, on two ranks.
Case small_case() {
  Case c;
  c.groups = {{.name = "root", .params = {{.name = "w", .shape = {3, 4}}}}};
  return c;
}

DomainLattice plain_lattice() { return {parse_pack_hooks({"plain"}).value(), {}}; }

std::vector<std::string> visited_names(const DomainCoverage& coverage) {
  std::vector<std::string> names;
  for (int cell = 0; cell < coverage.lattice().cell_count(); ++cell) {
    if (coverage.count(cell) > 0) names.push_back(coverage.lattice().name_of(cell));
  }
  return names;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

TEST(DomainLattice, HasACellForEachPairAndNamedTriple) {
  // Classes: 9 evenness, 8 dtypes, 1 hook, 8 reshard, 5 mesh, 3 steps, 7 experts, 9 operations.
  const DomainLattice lattice = plain_lattice();
  EXPECT_EQ(lattice.products().size(), 30U);
  EXPECT_EQ(lattice.cell_count(), 1180);
  const DomainLattice all(parse_pack_hooks({"plain"}).value(), {.triples = Triples::kAll});
  EXPECT_EQ(all.products().size(), 28U + 56U);
  EXPECT_EQ(LatticeOptions{}.world_max, GeneratorOptions{}.world_max);
}

TEST(DomainLattice, NamesFindTheirCells) {
  for (const Triples triples : {Triples::kNamed, Triples::kAll}) {
    const DomainLattice lattice = DomainLattice::of_known_packs({.triples = triples});
    for (int cell = 0; cell < lattice.cell_count(); ++cell) {
      ASSERT_EQ(lattice.find(lattice.name_of(cell)), cell);
    }
    EXPECT_EQ(lattice.find("evenness=even"), -1);
    EXPECT_EQ(lattice.find(""), -1);
  }
}

TEST(DomainLattice, ACellSaysWhatItIs) {
  const DomainLattice lattice = DomainLattice::of_known_packs();
  const int cell =
      lattice.find("evenness=single_row hook=torchao_moe_fp8:one_arg reshard=root_int");
  ASSERT_GE(cell, 0);
  EXPECT_EQ(lattice.phrase_of(cell),
            "one row on several ranks, torchao_moe_fp8:one_arg, root, int reshard");
  const DomainPoint point = lattice.point_of(cell);
  EXPECT_EQ(at(point, Axis::kEvenness), static_cast<int>(Evenness::kSingleRow));
  EXPECT_EQ(lattice.class_name(Axis::kHook, at(point, Axis::kHook)), "torchao_moe_fp8:one_arg");
  EXPECT_EQ(at(point, Axis::kReshard), static_cast<int>(Reshard::kRootInt));
  for (const Axis free : {Axis::kDtypes, Axis::kMesh, Axis::kSteps, Axis::kOperations}) {
    EXPECT_EQ(at(point, free), kAnyClass);
  }
}

TEST(DomainLattice, PacksOfTheUserJoin) {
  const PackInfo odd{.name = "odd",
                     .hooks = {{.name = "first"}, {.name = "second"}},
                     .calls = {CallPath::kBmm},
                     .dtypes = {DType::kBFloat16}};
  std::vector<PackHook> hooks = parse_pack_hooks({"plain"}).value();
  for (const HookInfo& hook : odd.hooks) hooks.push_back({.pack = &odd, .hook = &hook});
  const DomainLattice lattice(hooks, {});
  EXPECT_EQ(lattice.cell_count(), 1180 + 2 * 166);
  const auto is_possible = [&](const char* name) {
    return lattice.is_possible(lattice.find(name));
  };
  EXPECT_TRUE(is_possible("hook=odd:second experts=one"));
  EXPECT_FALSE(is_possible("hook=odd:second experts=none"));
  EXPECT_TRUE(is_possible("dtypes=widened hook=odd:first"));
  EXPECT_FALSE(is_possible("dtypes=wide_as_is hook=odd:first"));
}

TEST(DomainLattice, KnowsWhatCannotBe) {
  const DomainLattice lattice = DomainLattice::of_known_packs();
  for (const char* name :
       {"reshard=root_int mesh=one", "reshard=nested_int mesh=two", "reshard=nested_int mesh=odd",
        "evenness=one_shard reshard=nested_int", "evenness=even mesh=one",
        "evenness=one_shard mesh=two", "evenness=short_last mesh=two",
        "evenness=fewer_rows mesh=two", "evenness=even experts=one_over",
        "evenness=single_row experts=below", "mesh=two experts=one_under",
        "dtypes=wide_as_is hook=torchao_moe_fp8:shipped",
        "hook=torchao_float8_linear:shipped experts=multiple",
        "evenness=other_uneven hook=torchao_moe_fp8:shipped mesh=two",
        "evenness=single_row hook=plain:none mesh=one"}) {
    ASSERT_GE(lattice.find(name), 0) << name;
    EXPECT_FALSE(lattice.is_possible(lattice.find(name))) << name;
  }
  for (const char* name : {"reshard=root_int mesh=four_up", "reshard=nested_int mesh=hsdp",
                           "evenness=one_shard mesh=hsdp", "evenness=one_missing experts=one_over",
                           "hook=torchao_moe_fp8:shipped experts=none",
                           "evenness=other_uneven hook=plain:none mesh=two",
                           "evenness=other_uneven hook=torchao_moe_fp8:shipped mesh=odd"}) {
    ASSERT_GE(lattice.find(name), 0) << name;
    EXPECT_TRUE(lattice.is_possible(lattice.find(name))) << name;
  }
}

// An odd number with a factor begins with 9.
TEST(DomainLattice, MoreRanksMakeMorePossible) {
  const int cell = DomainLattice::of_known_packs().find("reshard=nested_int mesh=odd");
  int before = 0;
  for (int world_max = 1; world_max <= kMaxWorldSize; ++world_max) {
    const DomainLattice lattice = DomainLattice::of_known_packs({.world_max = world_max});
    EXPECT_EQ(lattice.is_possible(cell), world_max >= 9) << world_max;
    EXPECT_GE(lattice.possible_count(), before);
    before = lattice.possible_count();
  }
}

TEST(DomainCoverage, AParameterIsInOneCellOfEachProduct) {
  const DomainLattice lattice = plain_lattice();
  DomainCoverage coverage(lattice);
  EXPECT_EQ(coverage.count_new(small_case()), 30);
  EXPECT_EQ(coverage.visit(small_case()), 30);
  EXPECT_EQ(coverage.visit(small_case()), 0);
  EXPECT_EQ(coverage.case_count(), 2);
  const auto names = visited_names(coverage);
  ASSERT_EQ(names.size(), 30U);
  for (const char* name :
       {"evenness=one_missing dtypes=wide_as_is", "hook=plain:none reshard=root_default",
        "mesh=two steps=more", "experts=none operations=plain",
        "evenness=one_missing hook=plain:none reshard=root_default",
        "evenness=one_missing hook=plain:none mesh=two"}) {
    EXPECT_TRUE(has(names, name)) << name;
    EXPECT_EQ(coverage.count(lattice.find(name)), 2) << name;
  }
}

// Two like parameters of a case count once; what differs is new.
TEST(DomainCoverage, CountsCases) {
  const DomainLattice lattice = plain_lattice();
  DomainCoverage coverage(lattice);
  Case c = small_case();
  c.groups[0].params.push_back(c.groups[0].params[0]);
  c.groups[0].params[1].name = "w2";
  EXPECT_EQ(coverage.visit(c), 30);
  EXPECT_EQ(coverage.count(lattice.find("mesh=two steps=more")), 1);
  c.groups[0].params[1].shape = {4, 4};
  EXPECT_EQ(coverage.visit(c), 9);  // evenness with 7 other axes, and two triples
  c.steps = 1;
  EXPECT_EQ(coverage.visit(c), 6 + 2);  // 6 axes, and evenness of two classes
}

TEST(DomainCoverage, OtherPacksCountNowhere) {
  const DomainLattice lattice(parse_pack_hooks({"data_and_scales"}).value(), {});
  DomainCoverage coverage(lattice);
  EXPECT_EQ(coverage.visit(small_case()), 0);
  EXPECT_EQ(coverage.case_count(), 1);
  EXPECT_EQ(coverage.visited_count(), 0);
}

TEST(DomainCoverage, CountersStopAt255) {
  const DomainLattice lattice = plain_lattice();
  DomainCoverage coverage(lattice);
  const auto sum = [&] {
    int total = 0;
    for (const std::uint8_t byte : coverage.counters()) total += byte;
    return total;
  };
  coverage.visit(small_case());
  ASSERT_EQ(coverage.counters().size(), 1180U);
  EXPECT_EQ(sum(), 30);
  for (int i = 0; i < 300; ++i) coverage.visit(small_case());
  EXPECT_EQ(sum(), 30 * 255);
  EXPECT_EQ(coverage.counters()[static_cast<std::size_t>(lattice.find("mesh=two steps=more"))],
            255);
  coverage.clear();
  EXPECT_EQ(sum(), 0);
  EXPECT_EQ(coverage.case_count(), 0);
}

TEST(DomainCoverage, MergingIsVisitingBoth) {
  const DomainLattice lattice = DomainLattice::of_known_packs();
  DomainCoverage all(lattice), even(lattice), odd(lattice);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Choices choices = Choices::from_seed(seed);
    const Case c = generate(choices, {});
    all.visit(c);
    (seed % 2 == 0 ? even : odd).visit(c);
  }
  EXPECT_LT(even.visited_count(), all.visited_count());
  even.merge(odd);
  EXPECT_EQ(even.case_count(), 200);
  EXPECT_EQ(even.to_json(), all.to_json());
}

// visited + never visited = possible, and the share follows.
TEST(DomainCoverage, EveryCellIsAccountedFor) {
  const DomainLattice lattice = plain_lattice();
  DomainCoverage coverage(lattice);
  EXPECT_EQ(coverage.visited_share(), 0);
  coverage.visit(small_case());
  const auto never = coverage.never_visited();
  EXPECT_EQ(static_cast<int>(never.size()) + 30, lattice.possible_count());
  EXPECT_DOUBLE_EQ(coverage.visited_share(), 30.0 / lattice.possible_count());
  for (const int cell : never) {
    ASSERT_TRUE(lattice.is_possible(cell));
    ASSERT_EQ(coverage.count(cell), 0);
  }
  EXPECT_TRUE(coverage.visited_impossible().empty());
}

std::string surprises(const DomainCoverage& coverage) {
  std::string text;
  for (const int cell : coverage.visited_impossible()) {
    text += coverage.lattice().name_of(cell) + "\n";
  }
  return text;
}

TEST(DomainCoverage, GeneratedCasesVisitNothingImpossible) {
  const DomainLattice lattice = DomainLattice::of_known_packs({.triples = Triples::kAll});
  const DomainLattice large =
      DomainLattice::of_known_packs({.world_max = kMaxWorldSize, .triples = Triples::kAll});
  DomainCoverage coverage(lattice), large_coverage(large);
  Random swarms(1);
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    GeneratorOptions options;
    if (seed % 2 == 1) options.swarm = draw_swarm(swarms);
    Choices choices = Choices::from_seed(seed);
    Case c = generate(choices, options);
    coverage.visit(c);
    keep_documented_use(&c);
    coverage.visit(c);
    options.world_max = kMaxWorldSize;
    Choices again = Choices::from_seed(seed);
    large_coverage.visit(generate(again, options));
  }
  EXPECT_EQ(surprises(coverage), "");
  EXPECT_EQ(surprises(large_coverage), "");
}

// Cases that the generator would not make, thrown together and kept where validate() accepts them.
Case thrown_together(Random& random) {
  const auto pick = [&](const auto& values) { return values[random.below(values.size())]; };
  const auto dtype = [&]() -> std::optional<DType> {
    if (random.chance(40)) return std::nullopt;
    return pick(all_of<DType>());
  };
  Case c;
  c.mesh.shape = {static_cast<int>(random.between(1, kMaxWorldSize))};
  if (random.chance(50)) {
    c.mesh.shape.insert(c.mesh.shape.begin(), static_cast<int>(random.between(1, 4)));
    c.mesh.dim_names = {"replicate", "shard"};
  }
  GroupSpec group{.name = "root"};
  group.mixed_precision = {.param_dtype = dtype(), .reduce_dtype = dtype()};
  if (random.chance(50)) group.reshard_after_forward = static_cast<int>(random.between(1, 8));
  const PackInfo& pack = pick(all_packs());
  ParamSpec param{.name = "w", .pack = pack.name, .hook = pick(pack.hooks).name};
  param.call = pick(pack.calls);
  param.dtype = pick(pack.dtypes);
  param.shape = {random.between(1, 80)};
  for (std::int64_t dims = random.between(0, 3); dims > 0; --dims) {
    param.shape.push_back(pack.dim_multiple * random.between(1, 8));
  }
  param.shard_dim = static_cast<int>(random.below(3) / 2);
  group.params = {param};
  c.groups = {group};
  c.steps = static_cast<int>(random.between(1, 4));
  return c;
}

TEST(DomainCoverage, ValidCasesVisitNothingImpossible) {
  const DomainLattice lattice =
      DomainLattice::of_known_packs({.world_max = kMaxWorldSize, .triples = Triples::kAll});
  DomainCoverage coverage(lattice);
  Random random(1);
  for (int i = 0; i < 100000; ++i) {
    const Case c = thrown_together(random);
    if (validate(c)) coverage.visit(c);
  }
  EXPECT_GT(coverage.case_count(), 10000);
  EXPECT_EQ(surprises(coverage), "");
}

// More ranks than the lattice was made for: counted and told, but not among the possible ones.
TEST(DomainCoverage, TellsWhatWasHeldImpossible) {
  const DomainLattice lattice(parse_pack_hooks({"plain"}).value(), {.world_max = 4});
  DomainCoverage coverage(lattice);
  Case c = small_case();
  c.mesh.shape = {9};
  c.groups[0].reshard_after_forward = 3;
  coverage.visit(c);
  EXPECT_EQ(surprises(coverage), "reshard=root_int mesh=odd\n");
  EXPECT_EQ(coverage.visited_count(), 29);
}

}  // namespace
}  // namespace shardfuzz
