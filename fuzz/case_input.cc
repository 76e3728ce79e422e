#include "fuzz/case_input.h"

#include <algorithm>

#include "harness/base/check.h"

namespace shardfuzz {
namespace {

using Bytes = std::span<const std::uint8_t>;

// A number that the end of the bytes cuts short is what was there of it; bits beyond 32 are lost.
std::uint32_t take_number(Bytes* bytes) {
  std::uint32_t value = 0;
  for (unsigned shift = 0; !bytes->empty(); shift += 7) {
    const std::uint8_t byte = bytes->front();
    *bytes = bytes->subspan(1);
    if (shift < 32) value |= std::uint32_t{byte & 0x7fU} << shift;
    if ((byte & 0x80U) == 0) break;
  }
  return value;
}

void add_number(std::uint32_t value, std::vector<std::uint8_t>* bytes) {
  for (; value >= 0x80U; value >>= 7) bytes->push_back(static_cast<std::uint8_t>(value | 0x80U));
  bytes->push_back(static_cast<std::uint8_t>(value));
}

std::vector<Draws> as_lists(const CaseInput& input) {
  return {input.parts.begin(), input.parts.end()};
}

CaseInput taken(const Choices& choices) {
  std::vector<Draws> lists = choices.parts();
  SHARDFUZZ_CHECK(lists.size() == kGeneratedParts, "a case in {} parts, not {}", lists.size(),
                  kGeneratedParts);
  CaseInput input;
  std::move(lists.begin(), lists.end(), input.parts.begin());
  // Behind the end every draw is 0, so those at the end say nothing.
  for (Draws& part : input.parts) {
    while (!part.empty() && part.back() == 0) part.pop_back();
  }
  return input;
}

}  // namespace

CaseInput decode_input(Bytes bytes) {
  CaseInput input;
  for (std::size_t i = 0; i < kGeneratedParts; ++i) {
    const bool is_last = i + 1 == kGeneratedParts;
    const std::size_t count = is_last ? bytes.size() : take_number(&bytes);
    while (input.parts[i].size() < count && !bytes.empty()) {
      input.parts[i].push_back(take_number(&bytes));
    }
  }
  return input;
}

std::vector<std::uint8_t> encode_input(const CaseInput& input) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < kGeneratedParts; ++i) {
    const Draws& part = input.parts[i];
    if (i + 1 < kGeneratedParts) add_number(static_cast<std::uint32_t>(part.size()), &bytes);
    for (const std::uint32_t draw : part) add_number(draw, &bytes);
  }
  return bytes;
}

Case case_of(const CaseInput& input, const GeneratorOptions& options) {
  Choices choices = Choices::from_parts(as_lists(input));
  return generate(choices, options);
}

CaseInput tidied(const CaseInput& input, const GeneratorOptions& options) {
  Choices choices = Choices::from_parts(as_lists(input));
  generate(choices, options);
  return taken(choices);
}

CaseInput input_of_seed(std::uint64_t seed, const GeneratorOptions& options) {
  Choices choices = Choices::from_seed(seed);
  generate(choices, options);
  return taken(choices);
}

}  // namespace shardfuzz
