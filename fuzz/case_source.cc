#include "fuzz/case_source.h"

#include "fuzz/steer.h"
#include "harness/base/check.h"

namespace shardfuzz {
namespace {

std::unique_ptr<DomainLattice> lattice_of(const CaseSeries& series) {
  const auto hooks = parse_pack_hooks(series.packs);
  SHARDFUZZ_CHECK(hooks.ok(), "{}", hooks.error().text());
  return std::make_unique<DomainLattice>(*hooks, LatticeOptions{.world_max = series.world_max});
}

}  // namespace

CaseSource::CaseSource(const CaseSeries& series)
    : series_(series), lattice_(lattice_of(series)), coverage_(*lattice_) {}

bool CaseSource::is_steered(std::int64_t number) const {
  return series_.steered_one_in > 0 &&
         number % series_.steered_one_in == series_.steered_one_in - 1;
}

Case CaseSource::next() {
  const std::int64_t number = next_++;
  Case c = is_steered(number) ? numbered_case(series_, number, coverage_)
                              : numbered_case(series_, number);
  if (series_.steered_one_in > 0) coverage_.visit(c);
  return c;
}

void CaseSource::skip_to(std::int64_t number) {
  SHARDFUZZ_CHECK(number >= next_, "case {} is behind case {}", number, next_);
  if (series_.steered_one_in == 0) next_ = number;
  while (next_ < number) next();
}

}  // namespace shardfuzz
