#include "fuzz/properties/property.h"

#include <cstdlib>
#include <string>

namespace shardfuzz {

int run_properties(int argc, char** argv, const char* defaults) {
  // RapidCheck reads this once, before the first property, and takes a random seed where there is
  // none. Of two values of one name the last counts: the caller's own.
  const char* given = std::getenv("RC_PARAMS");
  const std::string params =
      std::string("seed=1 ") + defaults + " " + (given == nullptr ? "" : given);
  ::setenv("RC_PARAMS", params.c_str(), /*overwrite=*/1);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

Case generated_case(std::uint64_t seed, GeneratorOptions options) {
  Random random(seed);
  options.swarm = draw_swarm(random);
  Choices choices = Choices::from_seed(random.next());
  return generate(choices, options);
}

}  // namespace shardfuzz
