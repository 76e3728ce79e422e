// Texts that are no valid case file, each for one reason: what a careless editor, a broken tool or
// an attacker may hand to the program.
//
// Guarantees: the same seed gives the same texts; names are unique and safe as file names; for
// each, parse_case or validate refuses (malformed_test.cc). make_malformed_cases writes them as
// files for the test of the command line program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardfuzz {

inline constexpr std::uint64_t kMalformedSeed = 1;

struct MalformedText {
  std::string name;
  std::string text;
};
std::vector<MalformedText> malformed_texts(std::uint64_t seed);

}  // namespace shardfuzz
