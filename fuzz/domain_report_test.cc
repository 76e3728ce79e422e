#include "fuzz/domain_report.h"

#include <gtest/gtest.h>

#include <sstream>

#include "fuzz/generator.h"

namespace shardfuzz {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

int count_starting(const std::vector<std::string>& lines, std::string_view start) {
  int count = 0;
  for (const std::string& line : lines) count += line.starts_with(start) ? 1 : 0;
  return count;
}

DomainCoverage coverage_of(const DomainLattice& lattice, std::uint64_t cases) {
  DomainCoverage coverage(lattice);
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    Choices choices = Choices::from_seed(seed);
    coverage.visit(generate(choices, {}));
  }
  return coverage;
}

TEST(DomainReport, OneCaseOnTwoRanks) {
  const DomainLattice lattice(parse_pack_hooks({"plain"}).value(), {.world_max = 2});
  DomainCoverage coverage(lattice);
  Case c;
  c.groups = {{.name = "root", .params = {{.name = "w", .shape = {3, 4}}}}};
  coverage.visit(c);
  EXPECT_EQ(domain_report(coverage, 2),
            R"(domain coverage of 1 case: 30 of 708 possible cells visited (4.2 %)
678 never visited, 472 impossible with at most 2 ranks; below: visited/possible

pairs             dtypes        hook     reshard        mesh       steps     experts  operations
evenness            1/48         1/6        1/36        1/12        1/18        1/17        1/54
dtypes                           1/8        1/48        1/24        1/24        1/32        1/72
hook                                         1/6         1/3         1/3         1/4         1/9
reshard                                                 1/18        1/18        1/24        1/54
mesh                                                                 1/9        1/11        1/27
steps                                                                           1/12        1/27
experts                                                                                     1/36

triples
evenness, hook, reshard         1/36
evenness, hook, mesh            1/12

  never: one shard, fp32, no policy
  never: one shard, bf16, no policy
  and 676 more
)");
}

TEST(DomainReport, FitsATerminal) {
  for (const Triples triples : {Triples::kNamed, Triples::kAll}) {
    const DomainLattice lattice = DomainLattice::of_known_packs({.triples = triples});
    const auto lines = lines_of(domain_report(coverage_of(lattice, 1), lattice.cell_count()));
    for (const std::string& line : lines) EXPECT_LE(line.size(), 100U) << line;
    EXPECT_GT(lines.size(), 1000U);
  }
}

TEST(DomainReport, ListsAsManyAsAsked) {
  const DomainLattice lattice = DomainLattice::of_known_packs();
  const DomainCoverage coverage = coverage_of(lattice, 1000);
  const int never = static_cast<int>(coverage.never_visited().size());
  ASSERT_GT(never, 20);
  const auto lines = lines_of(domain_report(coverage));
  EXPECT_EQ(count_starting(lines, "  never: "), 20);
  EXPECT_EQ(lines.back(), fmt::format("  and {} more", never - 20));
  const auto all = lines_of(domain_report(coverage, never));
  EXPECT_EQ(count_starting(all, "  never: "), never);
  EXPECT_EQ(count_starting(all, "  and "), 0);
  EXPECT_EQ(all.back(), "  never: " + lattice.phrase_of(coverage.never_visited().back()));
}

TEST(DomainReport, TellsWhatWasHeldImpossible) {
  const DomainLattice lattice(parse_pack_hooks({"plain"}).value(), {.world_max = 4});
  DomainCoverage coverage(lattice);
  Case c;
  c.groups = {{.name = "root", .params = {{.name = "w", .shape = {3, 4}}}}};
  c.mesh.shape = {9};
  c.groups[0].reshard_after_forward = 3;
  coverage.visit(c);
  EXPECT_EQ(lines_of(domain_report(coverage)).back(),
            "  visited, but held impossible with at most 4 ranks: reshard=root_int mesh=odd");
}

}  // namespace
}  // namespace shardfuzz
