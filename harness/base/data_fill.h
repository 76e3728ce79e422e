// The data of a case: every element is a function of (case seed, place, index), the same on every
// machine, so that a wrong byte names the element it should have been.
#pragma once

#include <cstdint>
#include <string_view>

#include "harness/base/check.h"
#include "harness/base/hash.h"

namespace shardfuzz {

namespace detail {

// A divisor known to the compiler costs no division.
template <int range>
void fill_integers(float* data, std::int64_t count, std::uint64_t stream) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t word = mix64(stream + static_cast<std::uint64_t>(i));
    data[i] = static_cast<float>(static_cast<int>(word % (2 * range + 1)) - range);
  }
}

}  // namespace detail

inline constexpr int kWeightRange = 8;  // of parameters
inline constexpr int kInputRange = 1;   // of inputs and of the loss's weights

// Element i: an integer in [-range, range], or (not `integer`) about normal with deviation range
// / 4. `place` names the tensor: "group.param", "x/rank/step/...".
inline void fill_data(float* data, std::int64_t count, std::uint64_t seed, std::string_view place,
                      int range, bool integer) {
  const std::uint64_t stream = combine(seed, hash_bytes(place));
  if (integer) {
    if (range == kInputRange) return detail::fill_integers<kInputRange>(data, count, stream);
    SHARDFUZZ_CHECK(range == kWeightRange, "no data of range {}", range);
    return detail::fill_integers<kWeightRange>(data, count, stream);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t word = mix64(stream + static_cast<std::uint64_t>(i));
    float sum = -2.0F;  // of four uniform numbers: mean 0, variance 1/3
    for (int part = 0; part < 4; ++part) {
      sum += static_cast<float>((word >> (16 * part)) & 0xFFFF) / 65536.0F;
    }
    data[i] = sum * 1.7320508F * static_cast<float>(range) / 4.0F;
  }
}

}  // namespace shardfuzz
