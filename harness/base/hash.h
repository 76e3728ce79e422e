// Hashes that are part of file formats: they must give the same value on every machine, for ever.
//
// hash_bytes: FNV-1a over bytes with a final mix; names a case file.
// tensor_digest: a sum over 8-byte words of mix(word, index). Order independent by construction, so
// a GPU kernel that adds in any order gives the same value (kernels/), yet a swap of two different
// words changes it, since the index is mixed in. A tail shorter than 8 bytes is zero-extended and
// the byte count is mixed in last.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace shardfuzz {

// The finalizer of splitmix64 (Steele, Lea, Flood 2014): a bijection of 64-bit words.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr std::uint64_t hash_bytes(std::string_view bytes) {
  std::uint64_t state = 0xcbf29ce484222325ULL;
  for (const char c : bytes) {
    state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return mix64(state);
}

constexpr std::uint64_t combine(std::uint64_t seed, std::uint64_t value) {
  return mix64(seed ^ mix64(value));
}

namespace detail {
inline constexpr std::size_t kIndexWords = 2048;
// mix64 of the first indices: small tensors, of which there are many, need half the mixing.
inline constexpr auto kMixedIndex = [] {
  std::array<std::uint64_t, kIndexWords> mixed{};
  for (std::size_t i = 0; i < kIndexWords; ++i) mixed[i] = mix64(i);
  return mixed;
}();
}  // namespace detail

inline std::uint64_t tensor_digest(const void* data, std::size_t byte_count) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  const std::size_t word_count = byte_count / 8;
  std::uint64_t sum = 0;
  const auto word_at = [bytes](std::size_t i) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + 8 * i, 8);
    return word;
  };
  const std::size_t tabled = word_count < detail::kIndexWords ? word_count : detail::kIndexWords;
  for (std::size_t i = 0; i < tabled; ++i) sum += mix64(word_at(i) ^ detail::kMixedIndex[i]);
  for (std::size_t i = tabled; i < word_count; ++i) sum += mix64(word_at(i) ^ mix64(i));
  if (const std::size_t tail = byte_count % 8; tail != 0) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + 8 * word_count, tail);
    sum += mix64(word ^ mix64(word_count));
  }
  return mix64(sum ^ byte_count);
}

// 16 lower-case hex digits, the spelling used in files and output.
inline std::string hex64(std::uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (int i = 15; i >= 0; --i, value >>= 4)
    text[static_cast<std::size_t>(i)] = kDigits[value & 15];
  return text;
}

}  // namespace shardfuzz
