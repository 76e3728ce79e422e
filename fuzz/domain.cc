#include "fuzz/domain.h"

#include <algorithm>

#include "fuzz/detail/possible_points.h"

namespace shardfuzz {

DomainLattice::DomainLattice(const std::vector<PackHook>& hooks, const LatticeOptions& options)
    : world_max_(options.world_max) {
  for (int i = 0; i < kAxisCount; ++i) {
    const auto axis = static_cast<Axis>(i);
    std::vector<ClassText>& texts = classes_[static_cast<std::size_t>(i)];
    if (axis == Axis::kHook) {
      for (const PackHook& each : hooks) texts.push_back({to_text(each), to_text(each)});
      continue;
    }
    for (const ClassName& each : class_names(axis)) {
      texts.push_back({std::string(each.name), std::string(each.phrase)});
    }
  }
  add_products(options.triples);
  for (int cell = 0; cell < cell_count(); ++cell) {
    const bool is_new = cells_by_name_.emplace(name_of(cell), cell).second;
    SHARDFUZZ_CHECK(is_new, "two cells are called '{}'", name_of(cell));
  }
  for (const DomainPoint& point : detail::possible_points(hooks, world_max_)) {
    for (const Product& product : products_) mark_possible(product, point, 0, 0);
  }
  possible_count_ = static_cast<int>(std::count(is_possible_.begin(), is_possible_.end(), true));
}

DomainLattice DomainLattice::of_known_packs(const LatticeOptions& options) {
  return DomainLattice(parse_pack_hooks({}).value(), options);
}

void DomainLattice::add_products(Triples triples) {
  const auto axis = [](int index) { return static_cast<Axis>(index); };
  for (int a = 0; a < kAxisCount; ++a) {
    for (int b = a + 1; b < kAxisCount; ++b) add_product({axis(a), axis(b)});
  }
  if (triples == Triples::kNamed) {
    add_product({Axis::kEvenness, Axis::kHook, Axis::kReshard});
    add_product({Axis::kEvenness, Axis::kHook, Axis::kMesh});
    return;
  }
  for (int a = 0; a < kAxisCount; ++a) {
    for (int b = a + 1; b < kAxisCount; ++b) {
      for (int c = b + 1; c < kAxisCount; ++c) add_product({axis(a), axis(b), axis(c)});
    }
  }
}

void DomainLattice::add_product(std::vector<Axis> axes) {
  int count = 1;
  for (const Axis axis : axes) count *= size_of(axis);
  products_.push_back({.axes = std::move(axes), .first_cell = cell_count(), .cell_count = count});
  is_possible_.resize(is_possible_.size() + static_cast<std::size_t>(count), false);
}

// On an axis where the point has no class, each class goes with it. `cell` is that of the axes
// before `position`.
void DomainLattice::mark_possible(const Product& product, const DomainPoint& point,
                                  std::size_t position, int cell) {
  if (position == product.axes.size()) {
    is_possible_[static_cast<std::size_t>(product.first_cell + cell)] = true;
    return;
  }
  const Axis axis = product.axes[position];
  const int only = at(point, axis);
  const int first = only == kAnyClass ? 0 : only;
  const int last = only == kAnyClass ? size_of(axis) - 1 : only;
  for (int index = first; index <= last; ++index) {
    mark_possible(product, point, position + 1, cell * size_of(axis) + index);
  }
}

int DomainLattice::cell_of(const Product& product, const DomainPoint& point) const {
  int cell = 0;
  for (const Axis axis : product.axes) cell = cell * size_of(axis) + at(point, axis);
  return product.first_cell + cell;
}

const DomainLattice::Product& DomainLattice::product_of(int cell) const {
  SHARDFUZZ_CHECK(cell >= 0 && cell < cell_count(), "cell {} of {}", cell, cell_count());
  const auto after = std::upper_bound(
      products_.begin(), products_.end(), cell,
      [](int number, const Product& product) { return number < product.first_cell; });
  return *(after - 1);
}

DomainPoint DomainLattice::point_of(int cell) const {
  DomainPoint point;
  point.fill(kAnyClass);
  const Product& product = product_of(cell);
  int rest = cell - product.first_cell;
  for (auto axis = product.axes.rbegin(); axis != product.axes.rend(); ++axis) {
    at(point, *axis) = rest % size_of(*axis);
    rest /= size_of(*axis);
  }
  return point;
}

const std::string& DomainLattice::class_name(Axis axis, int index) const {
  return classes(axis)[static_cast<std::size_t>(index)].name;
}

std::string DomainLattice::name_of(int cell) const {
  const DomainPoint point = point_of(cell);
  std::string name;
  for (const Axis axis : product_of(cell).axes) {
    if (!name.empty()) name += ' ';
    name += fmt::format("{}={}", shardfuzz::name_of(axis), class_name(axis, at(point, axis)));
  }
  return name;
}

std::string DomainLattice::phrase_of(int cell) const {
  const DomainPoint point = point_of(cell);
  std::string text;
  for (const Axis axis : product_of(cell).axes) {
    if (!text.empty()) text += ", ";
    text += classes(axis)[static_cast<std::size_t>(at(point, axis))].phrase;
  }
  return text;
}

int DomainLattice::find(std::string_view name) const {
  const auto found = cells_by_name_.find(name);
  return found == cells_by_name_.end() ? -1 : found->second;
}

std::vector<DomainPoint> DomainLattice::points_of(const Case& c) const {
  const auto& hooks = classes(Axis::kHook);
  const auto hook_of = [&](const ParamSpec& param) {
    const std::string name = param.pack + ":" + param.hook;
    const auto found = std::find_if(hooks.begin(), hooks.end(),
                                    [&](const ClassText& text) { return text.name == name; });
    return found == hooks.end() ? kAnyClass : static_cast<int>(found - hooks.begin());
  };
  std::vector<DomainPoint> points;
  DomainPoint point;
  const int shard_ranks = c.mesh.shard_size();
  at(point, Axis::kMesh) = static_cast<int>(mesh_class_of(c.mesh));
  at(point, Axis::kSteps) = static_cast<int>(steps_class_of(c.steps));
  at(point, Axis::kOperations) = static_cast<int>(operations_class_of(c));
  for (const GroupSpec& group : c.groups) {
    const bool is_root = &group == &c.groups.front();
    at(point, Axis::kReshard) =
        static_cast<int>(reshard_of(group.reshard_after_forward, is_root, shard_ranks));
    for (const ParamSpec& param : group.params) {
      at(point, Axis::kHook) = hook_of(param);
      if (at(point, Axis::kHook) == kAnyClass) continue;
      at(point, Axis::kEvenness) = static_cast<int>(evenness_of(param, shard_ranks));
      at(point, Axis::kDtypes) = static_cast<int>(dtypes_of(param.dtype, group.mixed_precision));
      at(point, Axis::kExperts) = static_cast<int>(experts_of(param, shard_ranks));
      points.push_back(point);
    }
  }
  return points;
}

DomainCoverage::DomainCoverage(const DomainLattice& lattice)
    : lattice_(&lattice), counts_(static_cast<std::size_t>(lattice.cell_count())) {}

// Each cell of the case once.
template <typename Use>
void DomainCoverage::for_each_cell(const Case& c, Use use) const {
  const std::vector<DomainPoint> points = lattice_->points_of(c);
  for (const DomainLattice::Product& product : lattice_->products()) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      const int cell = lattice_->cell_of(product, points[i]);
      const bool is_repeat = std::any_of(
          points.begin(), points.begin() + static_cast<std::ptrdiff_t>(i),
          [&](const DomainPoint& earlier) { return lattice_->cell_of(product, earlier) == cell; });
      if (!is_repeat) use(static_cast<std::size_t>(cell));
    }
  }
}

int DomainCoverage::visit(const Case& c) {
  int new_cells = 0;
  for_each_cell(c, [&](std::size_t cell) { new_cells += counts_[cell]++ == 0 ? 1 : 0; });
  ++case_count_;
  return new_cells;
}

int DomainCoverage::count_new(const Case& c) const {
  int new_cells = 0;
  for_each_cell(c, [&](std::size_t cell) { new_cells += counts_[cell] == 0 ? 1 : 0; });
  return new_cells;
}

int DomainCoverage::visited_count() const {
  int visited = 0;
  for (int cell = 0; cell < lattice_->cell_count(); ++cell) {
    visited += lattice_->is_possible(cell) && count(cell) > 0 ? 1 : 0;
  }
  return visited;
}

double DomainCoverage::visited_share() const {
  const int possible = lattice_->possible_count();
  return possible == 0 ? 0 : static_cast<double>(visited_count()) / possible;
}

std::vector<int> DomainCoverage::never_visited() const {
  std::vector<int> cells;
  for (int cell = 0; cell < lattice_->cell_count(); ++cell) {
    if (lattice_->is_possible(cell) && count(cell) == 0) cells.push_back(cell);
  }
  return cells;
}

std::vector<int> DomainCoverage::visited_impossible() const {
  std::vector<int> cells;
  for (int cell = 0; cell < lattice_->cell_count(); ++cell) {
    if (!lattice_->is_possible(cell) && count(cell) > 0) cells.push_back(cell);
  }
  return cells;
}

void DomainCoverage::merge(const DomainCoverage& other) {
  SHARDFUZZ_CHECK(lattice_ == other.lattice_, "coverages of two lattices cannot be merged");
  case_count_ += other.case_count_;
  for (std::size_t cell = 0; cell < counts_.size(); ++cell) counts_[cell] += other.counts_[cell];
}

void DomainCoverage::clear() {
  case_count_ = 0;
  std::fill(counts_.begin(), counts_.end(), 0);
}

std::vector<std::uint8_t> DomainCoverage::counters() const {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(counts_.size());
  for (const std::int64_t n : counts_) {
    bytes.push_back(static_cast<std::uint8_t>(std::min<std::int64_t>(n, 255)));
  }
  return bytes;
}

}  // namespace shardfuzz
