// Hashes that are part of file formats: they must give the same value on every machine, for ever.
//
// hash_bytes: FNV-1a over bytes with a final mix; names a case file.
// tensor_digest: a sum over 8-byte words of mix(word, index). Order independent by construction, so
// a GPU kernel that adds in any order gives the same value (kernels/), yet a swap of two different
// words changes it, since the index is mixed in. A tail shorter than 8 bytes is zero-extended and
// the byte count is mixed in last.
#pragma once

#include <cstddef>
#include <cstdint>
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

std::uint64_t tensor_digest(const void* data, std::size_t byte_count);

// 16 lower-case hex digits, the spelling used in files and output.
inline std::string hex64(std::uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (int i = 15; i >= 0; --i, value >>= 4)
    text[static_cast<std::size_t>(i)] = kDigits[value & 15];
  return text;
}

}  // namespace shardfuzz
