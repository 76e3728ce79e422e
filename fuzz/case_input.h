// CaseInput: a generated case as the input of a coverage-guided fuzzer.
//
// Not the case's JSON but the draws it is made from (choices.h), one list for each part of
// generate(). So every input is a case that is valid and keeps to what FSDP2 promises, whatever was
// done to it, and to change one part leaves the others as they are.
// Guarantees: any bytes decode, none give the simplest case; decode_input(encode_input(i)) is i;
// tidied(i) gives the same case as i, holds only draws that the case takes, and is its own
// tidied(). Refuses nothing; options as for generate(). An input keeps its meaning only while the
// generator stays as it is: what shall last is the case file. Bytes: each part's draws behind their
// count, the last part's to the end; all numbers in LEB128. Use:  const Case c =
// case_of(decode_input(bytes), options);
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "fuzz/generator.h"
#include "harness/case/case.h"

namespace shardfuzz {

using Draws = std::vector<std::uint32_t>;

struct CaseInput {
  std::array<Draws, kGeneratedParts> parts;
  bool operator==(const CaseInput&) const = default;
};

CaseInput decode_input(std::span<const std::uint8_t> bytes);
std::vector<std::uint8_t> encode_input(const CaseInput& input);

Case case_of(const CaseInput& input, const GeneratorOptions& options);
CaseInput tidied(const CaseInput& input, const GeneratorOptions& options);
// The draws that generate() takes from a seed.
CaseInput input_of_seed(std::uint64_t seed, const GeneratorOptions& options);

}  // namespace shardfuzz
