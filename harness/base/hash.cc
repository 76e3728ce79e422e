#include "harness/base/hash.h"

#include <array>
#include <cstring>

#include "harness/base/vector_clones.h"

namespace shardfuzz {
namespace {

constexpr std::size_t kTabledWords = 2048;
// mix64 of the first indices: small tensors, of which there are many, need half the mixing.
constexpr auto kMixedIndex = [] {
  std::array<std::uint64_t, kTabledWords> mixed{};
  for (std::size_t i = 0; i < kTabledWords; ++i) mixed[i] = mix64(i);
  return mixed;
}();

std::uint64_t word_at(const unsigned char* bytes, std::size_t i, std::size_t size = 8) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes + 8 * i, size);
  return word;
}

// Of whole words: two loops without a branch, so that they vectorise.
SHARDFUZZ_VECTOR_CLONES
std::uint64_t sum_of_words(const unsigned char* bytes, std::size_t count) {
  const std::size_t tabled = count < kTabledWords ? count : kTabledWords;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < tabled; ++i) sum += mix64(word_at(bytes, i) ^ kMixedIndex[i]);
  for (std::size_t i = tabled; i < count; ++i) sum += mix64(word_at(bytes, i) ^ mix64(i));
  return sum;
}

}  // namespace

std::uint64_t tensor_digest(const void* data, std::size_t byte_count) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  const std::size_t words = byte_count / 8, tail = byte_count % 8;
  std::uint64_t sum = sum_of_words(bytes, words);
  if (tail != 0) sum += mix64(word_at(bytes, words, tail) ^ mix64(words));
  return mix64(sum ^ byte_count);
}

}  // namespace shardfuzz
