#include <gtest/gtest.h>

#include <utility>

#include "fuzz/domain.h"
#include "fuzz/generator.h"

namespace shardfuzz {
namespace {

std::string refusal(const DomainLattice& lattice, std::string_view text) {
  const auto read = DomainCoverage::from_json(lattice, text, "night.json");
  return read ? "accepted" : read.error().text();
}

std::string file_with(std::string_view cases, std::string_view visited) {
  return fmt::format(R"({{"schema": "shardfuzz.domain/1", "cases": {}, "visited": {}}})", cases,
                     visited);
}

TEST(DomainJson, ReadsBackWhatItWrote) {
  for (const Triples triples : {Triples::kNamed, Triples::kAll}) {
    const DomainLattice lattice = DomainLattice::of_known_packs({.triples = triples});
    DomainCoverage coverage(lattice);
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
      Choices choices = Choices::from_seed(seed);
      coverage.visit(generate(choices, {}));
    }
    const std::string text = coverage.to_json();
    const DomainCoverage read = DomainCoverage::from_json(lattice, text, "night.json").value();
    EXPECT_EQ(read.case_count(), 3000);
    for (int cell = 0; cell < lattice.cell_count(); ++cell) {
      ASSERT_EQ(read.count(cell), coverage.count(cell)) << lattice.name_of(cell);
    }
    EXPECT_EQ(read.to_json(), text);
  }
}

TEST(DomainJson, IsKeyedByNames) {
  const DomainLattice lattice(parse_pack_hooks({"plain"}).value(), {});
  const auto coverage = DomainCoverage::from_json(
      lattice, file_with("7", R"({"mesh=two steps=more": 5, "evenness=even mesh=two": 2})"), "x");
  EXPECT_EQ(coverage.value().to_json(), R"({
  "schema": "shardfuzz.domain/1",
  "cases": 7,
  "visited": {
    "evenness=even mesh=two": 2,
    "mesh=two steps=more": 5
  }
}
)");
}

// A file of fewer packs, or of fewer products, is one of more.
TEST(DomainJson, FilesStayValidWhenTheLatticeGrows) {
  const DomainLattice few(parse_pack_hooks({"plain"}).value(), {});
  const DomainLattice many = DomainLattice::of_known_packs({.triples = Triples::kAll});
  DomainCoverage coverage(few);
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Choices choices = Choices::from_seed(seed);
    coverage.visit(generate(choices, {.packs = {"plain"}}));
  }
  const auto read = DomainCoverage::from_json(many, coverage.to_json(), "night.json");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->visited_count(), coverage.visited_count());
  for (int cell = 0; cell < few.cell_count(); ++cell) {
    ASSERT_EQ(read->count(many.find(few.name_of(cell))), coverage.count(cell));
  }
}

TEST(DomainJson, RefusesWithThePlaceAndAWayOut) {
  const DomainLattice lattice(parse_pack_hooks({"plain"}).value(), {});
  const std::vector<std::pair<std::string, std::string>> refused{
      {"", "night.json: empty (give a coverage file)"},
      {"[]", "night.json: not a JSON object (give a coverage file)"},
      {R"({"schema": "shardfuzz.case/1"})",
       "night.json: /schema: unknown format '\"shardfuzz.case/1\"' (this version reads "
       "\"shardfuzz.domain/1\")"},
      {R"({"schema": "shardfuzz.domain/1", "cases": 1})",
       "night.json: /visited: this field is missing (add it)"},
      {R"({"schema": "shardfuzz.domain/1", "cases": 1, "visited": {}, "vistied": {}})",
       "night.json: /vistied: unknown field 'vistied' (remove it)"},
      {file_with("1", "[]"),
       "night.json: /visited: not an object (give the number of cases for each visited cell)"},
      {file_with("-1", "{}"),
       "night.json: /cases: '-1' is no number within 0..9223372036854775807 (check the file)"},
      {file_with("9223372036854775808", "{}"),
       "night.json: /cases: '9223372036854775808' is no number within 0..9223372036854775807 "
       "(check the file)"},
      {file_with("3", R"({"mesh=two steps=more": 4})"),
       "night.json: /visited/mesh=two steps=more: '4' is no number within 1..3 (check the file)"},
      {file_with("3", R"({"mesh=two steps=more": 0})"),
       "night.json: /visited/mesh=two steps=more: '0' is no number within 1..3 (check the file)"},
      {file_with("3", R"({"mesh=two steps=more": 1.5})"),
       "night.json: /visited/mesh=two steps=more: '1.5' is no number within 1..3 (check the file)"},
      {file_with("3", R"({"mesh=tow steps=more": 1})"),
       "night.json: /visited/mesh=tow steps=more: unknown cell 'mesh=tow steps=more' (did you mean "
       "'mesh=two steps=more'?)"},
      {file_with("3", R"({"hook=mine:shipped mesh=two": 1})"),
       "night.json: /visited/hook=mine:shipped mesh=two: unknown cell 'hook=mine:shipped mesh=two' "
       "(a cell of a pack of your own needs --pack with its file)"},
  };
  for (const auto& [text, expected] : refused) EXPECT_EQ(refusal(lattice, text), expected);
  EXPECT_EQ(refusal(lattice, file_with("3", "{}")), "accepted");
  EXPECT_EQ(refusal(lattice, file_with("3", "{").substr(0, 60)).find("night.json:1:"), 0U);
}

}  // namespace
}  // namespace shardfuzz
