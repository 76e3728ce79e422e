#include "fuzz/domain_report.h"

#include <fmt/format.h>

namespace shardfuzz {
namespace {

constexpr int kLabelWidth = 12;
constexpr int kColumnWidth = 12;

std::string fraction_text(const DomainCoverage& coverage, const DomainLattice::Product& product) {
  int visited = 0, possible = 0;
  for (int i = 0; i < product.cell_count; ++i) {
    const int cell = product.first_cell + i;
    if (!coverage.lattice().is_possible(cell)) continue;
    ++possible;
    visited += coverage.count(cell) > 0 ? 1 : 0;
  }
  return fmt::format("{}/{}", visited, possible);
}

// Axes down and across; each pair once, above the diagonal. The pairs come in that order.
std::string pair_table(const DomainCoverage& coverage) {
  std::string text = fmt::format("{:<{}}", "pairs", kLabelWidth);
  for (int across = 1; across < kAxisCount; ++across) {
    text += fmt::format("{:>{}}", name_of(static_cast<Axis>(across)), kColumnWidth);
  }
  auto product = coverage.lattice().products().begin();
  for (int down = 0; down + 1 < kAxisCount; ++down) {
    text += fmt::format("\n{:<{}}{:{}}", name_of(static_cast<Axis>(down)), kLabelWidth, "",
                        down * kColumnWidth);
    for (int across = down + 1; across < kAxisCount; ++across) {
      text += fmt::format("{:>{}}", fraction_text(coverage, *product++), kColumnWidth);
    }
  }
  return text + "\n";
}

std::string triple_lines(const DomainCoverage& coverage) {
  std::string text = "triples\n";
  for (const DomainLattice::Product& product : coverage.lattice().products()) {
    if (product.axes.size() < 3) continue;
    std::string axes;
    for (const Axis axis : product.axes) {
      axes += (axes.empty() ? "" : ", ") + std::string(name_of(axis));
    }
    text += fmt::format("{:<{}}{:>{}}\n", axes, kLabelWidth + kColumnWidth,
                        fraction_text(coverage, product), kColumnWidth);
  }
  return text;
}

std::string never_lines(const DomainCoverage& coverage, int never_max) {
  const std::vector<int> never = coverage.never_visited();
  std::string text;
  int shown = 0;
  for (const int cell : never) {
    if (shown++ == never_max) break;
    text += fmt::format("  never: {}\n", coverage.lattice().phrase_of(cell));
  }
  if (const int count = static_cast<int>(never.size()); count > never_max) {
    text += fmt::format("  and {} more\n", count - never_max);
  }
  return text;
}

std::string surprise_lines(const DomainCoverage& coverage) {
  std::string text;
  for (const int cell : coverage.visited_impossible()) {
    text += fmt::format("  visited, but held impossible with at most {} ranks: {}\n",
                        coverage.lattice().world_max(), coverage.lattice().name_of(cell));
  }
  return text;
}

}  // namespace

std::string domain_report(const DomainCoverage& coverage, int never_max) {
  const DomainLattice& lattice = coverage.lattice();
  std::string text = fmt::format(
      "domain coverage of {} case{}: {} of {} possible cells visited ({:.1f} %)\n"
      "{} never visited, {} impossible with at most {} ranks; below: visited/possible\n\n",
      coverage.case_count(), coverage.case_count() == 1 ? "" : "s", coverage.visited_count(),
      lattice.possible_count(), 100 * coverage.visited_share(),
      lattice.possible_count() - coverage.visited_count(),
      lattice.cell_count() - lattice.possible_count(), lattice.world_max());
  text += pair_table(coverage) + "\n" + triple_lines(coverage);
  const std::string lines = never_lines(coverage, never_max) + surprise_lines(coverage);
  return lines.empty() ? text : text + "\n" + lines;
}

}  // namespace shardfuzz
