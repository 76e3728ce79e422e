#include "fuzz/steer.h"

#include <algorithm>

#include "harness/base/hash.h"

namespace shardfuzz {
namespace {

using Features = std::vector<Feature>;

// What a class asks of the generator's features.
struct Wish {
  Features often, on, off;
};

void grant(const Wish& wish, GeneratorOptions* options) {
  for (const Feature feature : wish.off) options->swarm.set(feature, false);
  for (const Feature feature : wish.on) options->swarm.set(feature, true);
  for (const Feature feature : wish.often) {
    options->swarm.set(feature, true);
    options->often.set(feature, true);
  }
}

Wish wish_for(Evenness evenness) {
  switch (evenness) {
    case Evenness::kOtherEven:
    case Evenness::kOtherUneven: return {.often = {Feature::kShardDim1}};
    case Evenness::kOneShard: return {};
    case Evenness::kEven:
    case Evenness::kOneMissing:
    case Evenness::kShortLast:
    case Evenness::kEmptyRanks:
    case Evenness::kFewerRows:
    case Evenness::kSingleRow: return {.off = {Feature::kShardDim1, Feature::kManyExperts}};
  }
  SHARDFUZZ_CHECK(false, "evenness {} has no wish", static_cast<int>(evenness));
}

Wish wish_for(Dtypes dtypes) {
  switch (dtypes) {
    case Dtypes::kWideAsIs:
      return {.often = {Feature::kNoMixedPrecision}, .off = {Feature::kBf16Original}};
    case Dtypes::kNarrowAsIs:
      return {.often = {Feature::kNoMixedPrecision, Feature::kBf16Original}};
    case Dtypes::kWideKept:
      return {.often = {Feature::kFp32Param}, .off = {Feature::kBf16Original}};
    case Dtypes::kNarrowKept: return {.often = {Feature::kBf16Reduce, Feature::kBf16Original}};
    case Dtypes::kKeptReduced: return {.often = {Feature::kBf16Original}};
    case Dtypes::kNarrowed:
      return {.often = {Feature::kBf16Reduce}, .off = {Feature::kBf16Original}};
    case Dtypes::kNarrowedReduced: return {.off = {Feature::kBf16Original}};
    case Dtypes::kWidened: return {.often = {Feature::kFp32Param, Feature::kBf16Original}};
  }
  SHARDFUZZ_CHECK(false, "dtypes {} have no wish", static_cast<int>(dtypes));
}

Wish wish_for(Reshard reshard) {
  switch (reshard) {
    case Reshard::kRootInt:
    case Reshard::kNestedInt:
      return {.often = {Feature::kReshardInt}, .on = {Feature::kLargeWorld}};
    case Reshard::kRootFalse:
    case Reshard::kNestedFalse: return {.often = {Feature::kReshardFalse}};
    case Reshard::kRootDefault:
    case Reshard::kRootTrue:
    case Reshard::kNestedDefault:
    case Reshard::kNestedTrue: return {.off = {Feature::kReshardFalse, Feature::kReshardInt}};
  }
  SHARDFUZZ_CHECK(false, "reshard {} has no wish", static_cast<int>(reshard));
}

Wish wish_for(MeshClass mesh) {
  if (mesh == MeshClass::kHsdp) return {.often = {Feature::kHsdp}};
  return {.off = {Feature::kHsdp}};
}

// Packs have call paths with and without experts; which is the first differs.
Wish wish_for(Experts experts) {
  if (experts != Experts::kOther) return {.often = {Feature::kOtherCalls}};
  return {.often = {Feature::kOtherCalls, Feature::kManyExperts}, .on = {Feature::kLargeWorld}};
}

Wish wish_for(OperationsClass operations) {
  Features all;
  for (int i = 0; i < static_cast<int>(OperationsClass::kMixed); ++i) {
    const Features some = features_for(static_cast<OperationsClass>(i));
    all.insert(all.end(), some.begin(), some.end());
  }
  if (operations == OperationsClass::kMixed) return {.on = all};
  return {.often = features_for(operations), .off = all};
}

}  // namespace

GeneratorOptions aimed_at(const DomainPoint& point, const DomainLattice& lattice,
                          const GeneratorOptions& options) {
  GeneratorOptions aimed = options;
  const auto wants = [&](Axis axis) { return at(point, axis) != kAnyClass; };
  if (wants(Axis::kHook)) aimed.packs = {lattice.class_name(Axis::kHook, at(point, Axis::kHook))};
  if (wants(Axis::kEvenness)) {
    grant(wish_for(static_cast<Evenness>(at(point, Axis::kEvenness))), &aimed);
  }
  if (wants(Axis::kDtypes)) {
    grant(wish_for(static_cast<Dtypes>(at(point, Axis::kDtypes))), &aimed);
  }
  if (wants(Axis::kReshard)) {
    grant(wish_for(static_cast<Reshard>(at(point, Axis::kReshard))), &aimed);
  }
  if (wants(Axis::kExperts)) {
    grant(wish_for(static_cast<Experts>(at(point, Axis::kExperts))), &aimed);
  }
  if (wants(Axis::kOperations)) {
    grant(wish_for(static_cast<OperationsClass>(at(point, Axis::kOperations))), &aimed);
  }
  if (!wants(Axis::kMesh)) return aimed;
  const auto mesh = static_cast<MeshClass>(at(point, Axis::kMesh));
  grant(wish_for(mesh), &aimed);
  if (mesh == MeshClass::kOne) aimed.world_max = 1;
  if (mesh == MeshClass::kTwo) aimed.world_max = std::min(2, options.world_max);
  return aimed;
}

Case generate_steered(Choices& choices, const GeneratorOptions& options,
                      const DomainCoverage& coverage) {
  const DomainLattice& lattice = coverage.lattice();
  const std::vector<int> left = coverage.never_visited();
  if (left.empty()) return generate(choices, options);
  const int cell = choices.pick(left);
  const GeneratorOptions aimed = aimed_at(lattice.point_of(cell), lattice, options);
  const std::uint64_t seed = choices.below(1U << 31);
  for (std::uint64_t attempt = 0; attempt < kSteerTries; ++attempt) {
    Choices own = Choices::from_seed(combine(seed, attempt));
    Case c = generate(own, aimed);
    if (coverage.count_new(c) > 0) return c;
  }
  return generate(choices, options);
}

}  // namespace shardfuzz
