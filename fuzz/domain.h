// Domain coverage: which corners of the case space have been tried, and which never.
//
// Each parameter of a case has one class on each axis (domain_axes.h). The product of all axes has
// millions of cells, of which a night's run sees a few per cent, so "never visited" would say
// nothing. Bugs of sharding need two conditions, sometimes three (short shard and one-argument
// hook; uneven, HSDP, a hook that all-reduces), so the lattice has, as in pairwise testing, a cell
// for each pair of classes of two axes, and for each triple of evenness, hook and reshard and of
// evenness, hook and mesh, where the reports so far lie; or, if asked, for each triple of axes.
//
// Guarantees: cells are numbered in a fixed order for one list of packs; a cell's name
// ("evenness=even hook=plain:none") does not change when classes, axes or packs are added. A cell
// is *possible* if some valid case of at most world_max ranks lies in it. Parameters of packs that
// the lattice does not know count nowhere.
// Refused: coverage files with cells that the lattice does not know.
// Thread rule: a lattice may be shared; a coverage is used by one thread, and merged.
// Use:  const DomainLattice lattice = DomainLattice::of_known_packs();
//       DomainCoverage coverage(lattice);  coverage.visit(c);
//       puts(domain_report(coverage).c_str());
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/domain_axes.h"
#include "fuzz/pack_hooks.h"
#include "harness/base/result.h"

namespace shardfuzz {

enum class Triples { kNamed, kAll };

struct LatticeOptions {
  int world_max = 8;  // as GeneratorOptions
  Triples triples = Triples::kNamed;
};

class DomainLattice {
 public:
  // The cells of two axes, or three.
  struct Product {
    std::vector<Axis> axes;
    int first_cell = 0;
    int cell_count = 0;
  };

  // The classes of the hook axis are `hooks`, in their order.
  DomainLattice(const std::vector<PackHook>& hooks, const LatticeOptions& options);
  static DomainLattice of_known_packs(const LatticeOptions& options = {});

  [[nodiscard]] int cell_count() const { return static_cast<int>(is_possible_.size()); }
  [[nodiscard]] int possible_count() const { return possible_count_; }
  [[nodiscard]] bool is_possible(int cell) const {
    return is_possible_[static_cast<std::size_t>(cell)];
  }
  [[nodiscard]] int world_max() const { return world_max_; }
  [[nodiscard]] const std::vector<Product>& products() const { return products_; }

  // "evenness=even hook=plain:none"; and for people "even shards, plain:none".
  [[nodiscard]] std::string name_of(int cell) const;
  [[nodiscard]] std::string phrase_of(int cell) const;
  [[nodiscard]] int find(std::string_view name) const;  // -1: no such cell

  // The classes that a cell asks for; kAnyClass on the other axes.
  [[nodiscard]] DomainPoint point_of(int cell) const;
  // "plain:none"
  [[nodiscard]] const std::string& class_name(Axis axis, int index) const;

  // One for each parameter whose pack is on the hook axis.
  [[nodiscard]] std::vector<DomainPoint> points_of(const Case& c) const;
  // The cell of `product` in which a point lies.
  [[nodiscard]] int cell_of(const Product& product, const DomainPoint& point) const;

 private:
  struct ClassText {
    std::string name, phrase;
  };
  [[nodiscard]] const std::vector<ClassText>& classes(Axis axis) const {
    return classes_[static_cast<std::size_t>(axis)];
  }
  [[nodiscard]] int size_of(Axis axis) const { return static_cast<int>(classes(axis).size()); }
  [[nodiscard]] const Product& product_of(int cell) const;
  void add_products(Triples triples);
  void add_product(std::vector<Axis> axes);
  void mark_possible(const Product& product, const DomainPoint& point, std::size_t position,
                     int cell);

  std::array<std::vector<ClassText>, kAxisCount> classes_;
  std::vector<Product> products_;
  std::vector<bool> is_possible_;
  std::map<std::string, int, std::less<>> cells_by_name_;
  int possible_count_ = 0;
  int world_max_;
};

// How many cases had a parameter in each cell. The lattice must outlive it.
class DomainCoverage {
 public:
  explicit DomainCoverage(const DomainLattice& lattice);

  // Returns how many cells were visited for the first time.
  int visit(const Case& c);
  // The same without counting the case.
  [[nodiscard]] int count_new(const Case& c) const;

  [[nodiscard]] const DomainLattice& lattice() const { return *lattice_; }
  [[nodiscard]] std::int64_t case_count() const { return case_count_; }
  [[nodiscard]] std::int64_t count(int cell) const {
    return counts_[static_cast<std::size_t>(cell)];
  }
  // Possible cells that were visited, of all that are possible: 0 to 1.
  [[nodiscard]] double visited_share() const;
  [[nodiscard]] int visited_count() const;               // of the possible ones
  [[nodiscard]] std::vector<int> never_visited() const;  // possible, in the order of the lattice
  // Cells that were visited though they are not possible: cases of more ranks than world_max, else
  // an error of possible_points().
  [[nodiscard]] std::vector<int> visited_impossible() const;

  // Adds what another one of the same lattice has seen.
  void merge(const DomainCoverage& other);
  void clear();

  // One byte a cell, at most 255, for libFuzzer's extra counters: the fuzz target keeps one
  // coverage for the input at hand (clear() before each) and copies this into its section, which
  // must have room: 2 kB for the built-in packs, 19 kB with all triples.
  [[nodiscard]] std::vector<std::uint8_t> counters() const;

  // JSON, schema shardfuzz.domain/1: the visited cells by name, in the order of the lattice.
  [[nodiscard]] std::string to_json() const;
  // `file_name` is only for errors.
  static Result<DomainCoverage> from_json(const DomainLattice& lattice, std::string_view text,
                                          std::string_view file_name);

 private:
  template <typename Use>
  void for_each_cell(const Case& c, Use use) const;

  const DomainLattice* lattice_;
  std::int64_t case_count_ = 0;
  std::vector<std::int64_t> counts_;
};

}  // namespace shardfuzz
