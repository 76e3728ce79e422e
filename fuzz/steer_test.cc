#include "fuzz/steer.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>

#include "harness/case/case_json.h"
#include "harness/case/validate.h"

namespace shardfuzz {
namespace {

constexpr int kCases = 10000;

// A coverage in which all but one cell were visited.
DomainCoverage all_but(const DomainLattice& lattice, int cell) {
  std::string visited;
  for (int i = 0; i < lattice.cell_count(); ++i) {
    if (i == cell || !lattice.is_possible(i)) continue;
    visited += fmt::format("{}\"{}\": 1", visited.empty() ? "" : ", ", lattice.name_of(i));
  }
  const std::string text =
      fmt::format(R"({{"schema": "shardfuzz.domain/1", "cases": 1, "visited": {{{}}}}})", visited);
  return DomainCoverage::from_json(lattice, text, "test").value();
}

using Make = std::function<Case(Choices&, const DomainCoverage&)>;

// The number of cases after which each share of 1000 was reached, printed; returns the coverage.
DomainCoverage visited_by(const DomainLattice& lattice, const char* title, const Make& make) {
  DomainCoverage coverage(lattice);
  std::string line;
  for (int i = 1; i <= kCases; ++i) {
    Choices choices = Choices::from_seed(static_cast<std::uint64_t>(i));
    coverage.visit(make(choices, coverage));
    if (i == 100 || i == 300 || i == 1000 || i == 3000 || i == 10000) {
      line += fmt::format("  {}: {:.1f} %", i, 100 * coverage.visited_share());
    }
  }
  std::printf("%-22s possible cells visited after n cases:%s\n", title, line.c_str());
  return coverage;
}

// What steering is for. Every possible cell is reached, so what the lattice holds possible is.
TEST(Steer, ReachesEveryPossibleCell) {
  for (const Triples triples : {Triples::kNamed, Triples::kAll}) {
    const DomainLattice lattice = DomainLattice::of_known_packs({.triples = triples});
    std::printf("%d cells, %d possible\n", lattice.cell_count(), lattice.possible_count());
    const DomainCoverage plain =
        visited_by(lattice, "plain",
                   [](Choices& choices, const DomainCoverage&) { return generate(choices, {}); });
    const DomainCoverage steered =
        visited_by(lattice, "steered", [](Choices& choices, const DomainCoverage& coverage) {
          return generate_steered(choices, {}, coverage);
        });
    EXPECT_GE(plain.visited_share(), 0.9);
    EXPECT_LT(plain.visited_share(), 0.99);
    EXPECT_EQ(steered.visited_share(), 1.0);
    EXPECT_TRUE(steered.visited_impossible().empty());
  }
}

// As a run does it, with half of the features off.
TEST(Steer, ReachesEveryPossibleCellWithSwarms) {
  const DomainLattice lattice = DomainLattice::of_known_packs();
  Random random(1);
  const auto with_swarm = [&] { return GeneratorOptions{.swarm = draw_swarm(random)}; };
  const DomainCoverage plain = visited_by(
      lattice, "plain, swarms",
      [&](Choices& choices, const DomainCoverage&) { return generate(choices, with_swarm()); });
  const DomainCoverage steered =
      visited_by(lattice, "steered, swarms", [&](Choices& choices, const DomainCoverage& coverage) {
        return generate_steered(choices, with_swarm(), coverage);
      });
  EXPECT_GE(plain.visited_share(), 0.85);
  EXPECT_EQ(steered.visited_share(), 1.0);
}

// The rarest cells, each the only one left.
TEST(Steer, HitsTheCellThatIsLeft) {
  const DomainLattice lattice = DomainLattice::of_known_packs();
  for (const char* name :
       {"evenness=other_uneven dtypes=widened",
        "evenness=short_last hook=torchao_moe_fp8:padded reshard=root_int",
        "evenness=single_row hook=data_and_scales:padded reshard=root_int",
        "evenness=other_uneven hook=torchao_moe_fp8:shipped reshard=nested_int",
        "evenness=other_uneven hook=torchao_float8_linear:shipped mesh=hsdp",
        "dtypes=narrow_as_is experts=other", "mesh=one operations=accumulation"}) {
    const int cell = lattice.find(name);
    ASSERT_GE(cell, 0) << name;
    const DomainCoverage coverage = all_but(lattice, cell);
    ASSERT_EQ(coverage.never_visited(), std::vector<int>{cell});
    int hits = 0, plain_hits = 0;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      Choices choices = Choices::from_seed(seed), same = Choices::from_seed(seed);
      hits += coverage.count_new(generate_steered(choices, {}, coverage));
      plain_hits += coverage.count_new(generate(same, {}));
    }
    std::printf("%2d of 50 aims hit (plain: %d): %s\n", hits, plain_hits, name);
    EXPECT_GE(hits, 5) << name;
    EXPECT_EQ(plain_hits, 0) << name;
  }
}

TEST(Steer, CasesAreValidAndSmall) {
  const DomainLattice lattice = DomainLattice::of_known_packs({.triples = Triples::kAll});
  DomainCoverage coverage(lattice);
  Random random(1);
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const GeneratorOptions options{.world_max = 1 + static_cast<int>(seed) % 8,
                                   .swarm = draw_swarm(random)};
    Choices choices = Choices::from_seed(seed);
    const Case c = generate_steered(choices, options, coverage);
    const Status valid = validate(c);
    ASSERT_TRUE(valid.ok()) << valid.error().text() << "\n" << canonical_text(c);
    ASSERT_LE(c.mesh.world_size(), options.world_max);
    std::int64_t elements = 0;
    for (const GroupSpec& group : c.groups) {
      for (const ParamSpec& param : group.params) {
        std::int64_t product = 1;
        for (const std::int64_t size : param.shape) product *= size;
        if (param.tied_to.empty()) elements += product;
      }
    }
    ASSERT_LE(elements, kMaxGeneratedElements) << canonical_text(c);
    coverage.visit(c);
  }
}

TEST(Steer, DependsOnItsArgumentsOnly) {
  const DomainLattice lattice = DomainLattice::of_known_packs();
  DomainCoverage coverage(lattice);
  int hits = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Choices choices = Choices::from_seed(seed);
    const Case c = generate_steered(choices, {}, coverage);
    Choices again = Choices::from_draws(choices.draws());
    ASSERT_EQ(generate_steered(again, {}, coverage), c) << "seed " << seed;
    const bool was_aimed = choices.draws().size() == 2;
    const int new_cells = coverage.visit(c);
    ASSERT_TRUE(!was_aimed || new_cells > 0) << "seed " << seed;
    hits += was_aimed ? 1 : 0;
  }
  EXPECT_GE(hits, 400);
}

// Nothing left, or nothing that can be reached: the plain case of the same draws.
TEST(Steer, FallsBackToThePlainCase) {
  const DomainLattice lattice = DomainLattice::of_known_packs();
  const DomainCoverage done = all_but(lattice, -1);
  ASSERT_TRUE(done.never_visited().empty());
  const DomainCoverage out_of_reach =
      all_but(lattice, lattice.find("reshard=nested_int mesh=four_up"));
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Choices steered = Choices::from_seed(seed), plain = Choices::from_seed(seed);
    EXPECT_EQ(generate_steered(steered, {}, done), generate(plain, {}));
    const GeneratorOptions few_ranks{.world_max = 3};
    Choices missed = Choices::from_seed(seed), same = Choices::from_seed(seed);
    const Case c = generate_steered(missed, few_ranks, out_of_reach);
    same.below(1);         // the cell, of one
    same.below(1U << 31);  // the seed of the tries
    EXPECT_EQ(c, generate(same, few_ranks));
  }
}

TEST(Steer, AimsWithOptions) {
  const DomainLattice lattice = DomainLattice::of_known_packs();
  const auto aimed = [&](const char* name) {
    return aimed_at(lattice.point_of(lattice.find(name)), lattice, {.swarm = {}});
  };
  EXPECT_EQ(aimed("hook=torchao_moe_fp8:one_arg mesh=one").packs,
            std::vector<std::string>{"torchao_moe_fp8:one_arg"});
  EXPECT_EQ(aimed("hook=torchao_moe_fp8:one_arg mesh=one").world_max, 1);
  EXPECT_EQ(aimed("mesh=two steps=one").world_max, 2);
  EXPECT_EQ(to_text(aimed("mesh=hsdp steps=one").often), "hsdp");
  EXPECT_EQ(to_text(aimed("reshard=root_int steps=one").swarm), "large_world,reshard_int");
  EXPECT_EQ(to_text(aimed("steps=one operations=prefetch").often), "prefetch");
  EXPECT_EQ(to_text(aimed("steps=one operations=plain").swarm), "core");
  EXPECT_TRUE(aimed("steps=one operations=plain").packs.empty());
}

// The last test, since the pack stays.
TEST(Steer, CoversPacksOfTheUser) {
  add_pack({.name = "odd",
            .about = "for this test",
            .hooks = {{.name = "only", .arguments = 5}},
            .calls = {CallPath::kBmm},
            .dtypes = {DType::kBFloat16},
            .dim_multiple = 3,
            .is_extension = true,
            .needs_param_dtype = true});
  const std::vector<std::string> packs{"odd"};
  const DomainLattice lattice(parse_pack_hooks(packs).value(), {});
  DomainCoverage coverage(lattice);
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Choices choices = Choices::from_seed(seed);
    coverage.visit(generate_steered(choices, {.packs = packs}, coverage));
  }
  EXPECT_EQ(coverage.visited_share(), 1.0);
  EXPECT_TRUE(coverage.visited_impossible().empty());
}

}  // namespace
}  // namespace shardfuzz
