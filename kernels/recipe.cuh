// The recipe's arithmetic in device code (harness/real/fp8/recipe.h says what it guarantees).
//
// cvt.rn.satfinite.e4m3x2.f32 clamps, rounds to nearest even and makes any NaN 0x7F: the twin's
// e4m3_of in one instruction. fmaxf and max.bf16x2 give the operand that is not NaN, so a maximum
// that starts from 0 drops NaN as the twin does. Build without --use_fast_math: it flushes
// denormals.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cstdint>

namespace shardfuzz::kernels {

// A 16-byte vector of the source.
template <typename Raw>
struct Vector;

template <>
struct Vector<float> {
  static constexpr int kSize = 4;
  static __device__ float element(const uint4& vector, int i) {
    const std::uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
    return __uint_as_float(words[i]);
  }
};

template <>
struct Vector<__nv_bfloat16> {
  static constexpr int kSize = 8;
  static __device__ float element(const uint4& vector, int i) {
    const std::uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
    const std::uint32_t word = words[i / 2];
    return __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xFFFF0000U);
  }
};

// Element-wise maxima of magnitudes over many vectors, NaN dropped.
template <typename Raw>
struct Maxima;

template <>
struct Maxima<float> {
  float values[4] = {};
  __device__ void add(const uint4& vector) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[i] = fmaxf(values[i], fabsf(Vector<float>::element(vector, i)));
    }
  }
  __device__ float element(int i) const { return values[i]; }
};

template <>
struct Maxima<__nv_bfloat16> {
  __nv_bfloat162 pairs[4] = {};
  __device__ void add(const uint4& vector) {
    const std::uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __nv_bfloat162 pair = *reinterpret_cast<const __nv_bfloat162*>(&words[i]);
      pairs[i] = __hmax2(pairs[i], __habs2(pair));
    }
  }
  __device__ float element(int i) const {
    return i % 2 == 0 ? __low2float(pairs[i / 2]) : __high2float(pairs[i / 2]);
  }
};

inline __device__ float float_of(float raw) { return raw; }
inline __device__ float float_of(__nv_bfloat16 raw) { return __bfloat162float(raw); }

inline __device__ float encode_scale(float amax, bool power_of_two) {
  const double bounded = fmax(static_cast<double>(amax), 1e-12);
  const float scale = static_cast<float>(448.0 / bounded);
  return power_of_two ? __uint_as_float(__float_as_uint(scale) & 0x7F800000U) : scale;
}

// Two values as bytes; the first is the lower one.
inline __device__ std::uint32_t e4m3_pair(float first, float second) {
  return __nv_cvt_float2_to_fp8x2(make_float2(first, second), __NV_SATFINITE, __NV_E4M3);
}

inline __device__ std::uint32_t e4m3_quad(float a, float b, float c, float d) {
  return e4m3_pair(a, b) | (e4m3_pair(c, d) << 16);
}

inline __device__ float warp_max(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
  }
  return value;
}

}  // namespace shardfuzz::kernels
