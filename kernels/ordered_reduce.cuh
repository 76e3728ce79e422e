// The arithmetic that the kernel and its CPU twin share: one file, so that they cannot differ.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/ordered_reduce.h"

#ifdef __CUDACC__
#define SHARDFUZZ_BOTH __host__ __device__
#else
#define SHARDFUZZ_BOTH
#endif

namespace shardfuzz::kernels {

SHARDFUZZ_BOTH inline std::uint32_t word_of(float value) {
  std::uint32_t word;
  memcpy(&word, &value, 4);
  return word;
}

SHARDFUZZ_BOTH inline float float_of_word(std::uint32_t word) {
  float value;
  memcpy(&value, &word, 4);
  return value;
}

// Elements as they lie in memory, to and from float; to nearest even.
struct Float32Format {
  using Raw = float;
  static SHARDFUZZ_BOTH float load(Raw raw) { return raw; }
  static SHARDFUZZ_BOTH Raw store(float value) { return value; }
};

struct Bfloat16Format {
  using Raw = std::uint16_t;
  static SHARDFUZZ_BOTH float load(Raw raw) {
    return float_of_word(static_cast<std::uint32_t>(raw) << 16);
  }
  static SHARDFUZZ_BOTH Raw store(float value) {
    const std::uint32_t bits = word_of(value);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0x7FC0;  // as ATen and CUDA spell it
    return static_cast<Raw>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
  }
};

struct Float16Format {
  using Raw = std::uint16_t;
  static SHARDFUZZ_BOTH float load(Raw raw) {
    const std::uint32_t sign = (raw & 0x8000U) << 16, exponent = (raw >> 10) & 31U;
    const std::uint32_t mantissa = raw & 0x3FFU;
    if (exponent == 31) return float_of_word(sign | 0x7F800000U | (mantissa << 13));
    if (exponent != 0) return float_of_word(sign | ((exponent + 112U) << 23) | (mantissa << 13));
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return float_of_word(sign | word_of(magnitude));
  }
  static SHARDFUZZ_BOTH Raw store(float value) {
    const std::uint32_t bits = word_of(value), magnitude = bits & 0x7FFFFFFFU;
    const std::uint32_t sign = (bits >> 16) & 0x8000U;
    if (magnitude > 0x7F800000U) return static_cast<Raw>(0x7FFF);
    if (magnitude >= 0x47800000U) return static_cast<Raw>(sign | 0x7C00U);  // 65536 and more
    if (magnitude < 0x38800000U) {  // below the least normal: in steps of 2^-24
      const float stepped = float_of_word(magnitude) + 0.5F;  // ulp of [0.5, 1) is 2^-24
      return static_cast<Raw>(sign | (word_of(stepped) - word_of(0.5F)));
    }
    const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U);
    return static_cast<Raw>(sign | ((rounded - (112U << 23)) >> 13));
  }
};

template <typename Format>
SHARDFUZZ_BOTH float rounded(float value) {
  return Format::load(Format::store(value));
}

SHARDFUZZ_BOTH inline float extreme(float a, float b, bool greater) {
  if (a != a) return a;
  if (b != b) return b;
  return (greater ? a > b : a < b) ? a : b;
}

// One element over all members. `factor` is 1 for what is not scaled.
template <typename Format>
SHARDFUZZ_BOTH typename Format::Raw reduce_element(const void* const* inputs, int members,
                                                   std::int64_t i, ReduceOp op, float factor) {
  using Raw = typename Format::Raw;
  const auto member = [&](int m) {
    const float value = Format::load(static_cast<const Raw*>(inputs[m])[i]);
    return factor == 1.0F ? value : rounded<Format>(value * factor);
  };
  float result = member(0);
  for (int m = 1; m < members; ++m) {
    const float next = member(m);
    if (op == ReduceOp::kMin || op == ReduceOp::kMax) {
      result = extreme(result, next, op == ReduceOp::kMax);
    } else {
      result = rounded<Format>(result + next);
    }
  }
  return Format::store(result);
}

inline float factor_of(const Reduction& reduction, std::size_t members) {
  if (reduction.op == ReduceOp::kAverage) {
    return static_cast<float>(1.0 / static_cast<double>(members));
  }
  return reduction.op == ReduceOp::kPremulSum ? static_cast<float>(reduction.factor) : 1.0F;
}

}  // namespace shardfuzz::kernels
