#include "fuzz/numbered_case.h"

#include <fmt/format.h>

#include "fuzz/documented_use.h"
#include "fuzz/generator.h"
#include "harness/base/hash.h"

namespace shardfuzz {

Case numbered_case(const CaseSeries& series, std::int64_t number) {
  const std::uint64_t seed = combine(series.seed, static_cast<std::uint64_t>(number));
  Random swarm_random(
      combine(series.seed ^ 0x5a5a, static_cast<std::uint64_t>(number / kCasesPerSwarm)));
  const GeneratorOptions generator{
      .packs = series.packs, .world_max = series.world_max, .swarm = draw_swarm(swarm_random)};
  Choices choices = Choices::from_seed(seed);
  Case c = generate(choices, generator);
  if (series.documented_use_only) keep_documented_use(&c);
  c.name = fmt::format("seed-{}-case-{}", series.seed, number);
  c.origin = {.kind = "fuzz", .source = fmt::format("{} (case {})", series.command, number)};
  return c;
}

}  // namespace shardfuzz
