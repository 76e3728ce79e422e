#include "fuzz/numbered_case.h"

#include <fmt/format.h>

#include "fuzz/documented_use.h"
#include "fuzz/generator.h"
#include "fuzz/steer.h"
#include "harness/base/hash.h"

namespace shardfuzz {
namespace {

template <typename Generate>
Case numbered(const CaseSeries& series, std::int64_t number, Generate generate_with) {
  const std::uint64_t seed = combine(series.seed, static_cast<std::uint64_t>(number));
  Random swarm_random(
      combine(series.seed ^ 0x5a5a, static_cast<std::uint64_t>(number / kCasesPerSwarm)));
  const GeneratorOptions generator{
      .packs = series.packs, .world_max = series.world_max, .swarm = draw_swarm(swarm_random)};
  Choices choices = Choices::from_seed(seed);
  Case c = generate_with(choices, generator);
  if (series.documented_use_only) keep_documented_use(&c);
  c.name = fmt::format("seed-{}-case-{}", series.seed, number);
  c.origin = {.kind = "fuzz", .source = fmt::format("{} (case {})", series.command, number)};
  return c;
}

}  // namespace

Case numbered_case(const CaseSeries& series, std::int64_t number) {
  return numbered(series, number, [](Choices& choices, const GeneratorOptions& options) {
    return generate(choices, options);
  });
}

Case numbered_case(const CaseSeries& series, std::int64_t number, const DomainCoverage& coverage) {
  return numbered(series, number, [&](Choices& choices, const GeneratorOptions& options) {
    return generate_steered(choices, options, coverage);
  });
}

}  // namespace shardfuzz
