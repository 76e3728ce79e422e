#include "harness/base/data_fill.h"

#include "harness/base/check.h"
#include "harness/base/hash.h"
#include "harness/base/vector_clones.h"

namespace shardfuzz {
namespace {

// The same remainder as the word has for each divisor of 255 (256 is 1 modulo it), but small
// enough to be divided in a vector.
constexpr std::uint32_t sum_of_bytes(std::uint64_t word) {
  constexpr std::uint64_t kEvenBytes = 0x00FF00FF00FF00FFULL;
  word = (word & kEvenBytes) + ((word >> 8) & kEvenBytes);
  word += word >> 32;
  word += word >> 16;
  return static_cast<std::uint32_t>(word & 0xFFFF);
}

// A divisor known to the compiler costs no division.
template <int range>
inline void fill_integers(float* data, std::int64_t count, std::uint64_t stream) {
  constexpr std::uint32_t kValues = 2 * range + 1;
  static_assert(255 % kValues == 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t word = mix64(stream + static_cast<std::uint64_t>(i));
    data[i] = static_cast<float>(static_cast<int>(sum_of_bytes(word) % kValues) - range);
  }
}

SHARDFUZZ_VECTOR_CLONES
void fill_inputs(float* data, std::int64_t count, std::uint64_t stream) {
  fill_integers<kInputRange>(data, count, stream);
}

SHARDFUZZ_VECTOR_CLONES
void fill_weights(float* data, std::int64_t count, std::uint64_t stream) {
  fill_integers<kWeightRange>(data, count, stream);
}

void fill_normal(float* data, std::int64_t count, std::uint64_t stream, int range) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t word = mix64(stream + static_cast<std::uint64_t>(i));
    float sum = -2.0F;  // of four uniform numbers: mean 0, variance 1/3
    for (int part = 0; part < 4; ++part) {
      sum += static_cast<float>((word >> (16 * part)) & 0xFFFF) / 65536.0F;
    }
    data[i] = sum * 1.7320508F * static_cast<float>(range) / 4.0F;
  }
}

}  // namespace

void fill_data(float* data, std::int64_t count, std::uint64_t seed, std::string_view place,
               int range, bool integer) {
  const std::uint64_t stream = combine(seed, hash_bytes(place));
  if (!integer) return fill_normal(data, count, stream, range);
  if (range == kInputRange) return fill_inputs(data, count, stream);
  SHARDFUZZ_CHECK(range == kWeightRange, "no data of range {}", range);
  fill_weights(data, count, stream);
}

}  // namespace shardfuzz
