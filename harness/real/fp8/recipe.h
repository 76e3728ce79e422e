// The fp8 recipe of torchao's MoE training on raw arrays: scales and e4m3fn bytes, bit for bit.
//
// Guarantees: amax along the contraction axis; scale = 448 / max(amax, 1e-12) in double, rounded to
// float, then (kPowerOfTwo) down to a power of two by clearing the mantissa; byte = value * scale
// in float, clamped to +-448, rounded to nearest even, the sign of zero kept. The same bytes on
// every machine: there is no reduction whose order could matter and no contraction into FMA. NaN,
// as torchao 0.18's Triton kernels treat it: the maximum drops NaN, so the slot keeps a finite
// scale, and a NaN that reaches the conversion (also inf * 0) becomes 0x7F, whatever its sign.
// amax = inf gives scale 0, so a finite value of that slot becomes a zero and inf a NaN.
// An empty or all-zero slot has scale 2^48 and no NaN.
// Known difference: eager torchao takes floor(log2f(s)), and log2f rounds up for fp32 amaxes 1 to
// 38 ulp above 1.75 * 2^n, where its scale is twice ours. No bf16 amax is concerned. Refuses
// nothing: the caller owns sizes and strides. Use:  quantize({.data = x, .element =
// Element::kFloat32, .slot_stride = k, .step_stride = 1},
//                {.bytes = out, .slot_stride = k, .step_stride = 1}, {.slots = m, .steps = k},
//                ScaleRounding::kPowerOfTwo, scales);
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace shardfuzz::fp8 {

inline constexpr float kMaxE4m3 = 448.0F;
inline constexpr double kAmaxFloor = 1e-12;
inline constexpr std::uint8_t kNanByte = 0x7F;

enum class ScaleRounding { kNone, kPowerOfTwo };
enum class Element { kFloat32, kBfloat16 };

// What a value is multiplied with before it becomes a byte; a NaN amax counts as 0.
float encode_scale(float amax, ScaleRounding rounding);

// Every e4m3fn byte as a float: bias 7, subnormal step 2^-9, no infinity, 0x7F and 0xFF are NaN.
constexpr std::array<float, 256> make_e4m3_values() {
  std::array<float, 256> values{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const std::uint32_t sign = (byte & 0x80U) << 24, exponent = (byte >> 3) & 15U;
    const std::uint32_t mantissa = byte & 7U;
    std::uint32_t bits = ((exponent + 120U) << 23) | (mantissa << 20);
    if (exponent == 0) {
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(mantissa) * 0x1p-9F);
    } else if ((byte & 0x7FU) == kNanByte) {
      bits = 0x7FC00000U;
    }
    values[byte] = std::bit_cast<float>(bits | sign);
  }
  return values;
}
inline constexpr std::array<float, 256> kE4m3Values = make_e4m3_values();

// Clamps to +-448 and rounds to nearest even. Branch free, so that loops over it vectorise.
inline std::uint8_t e4m3_of(float value) {
  constexpr std::int32_t kMaxBits = std::bit_cast<std::int32_t>(kMaxE4m3);
  constexpr std::int32_t kInfinityBits = 0x7F800000;
  constexpr std::int32_t kLeastNormalBits = std::bit_cast<std::int32_t>(0x1p-6F);
  // A float at 2^14 has ulp 2^-9, the subnormal step: adding it rounds, to nearest even, in place.
  constexpr float kRoundToStep = 0x1p14F;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::int32_t>((bits >> 24) & 0x80U);
  const auto magnitude = static_cast<std::int32_t>(bits & 0x7FFFFFFFU);
  const std::int32_t clamped = magnitude < kMaxBits ? magnitude : kMaxBits;
  // Keep 3 of 23 mantissa bits; a carry runs on into the exponent. 120 rebiases from 127 to 7.
  const std::int32_t normal = ((clamped + 0x7FFFF + ((clamped >> 20) & 1)) >> 20) - (120 << 3);
  const std::int32_t subnormal =
      std::bit_cast<std::int32_t>(std::bit_cast<float>(clamped) + kRoundToStep) -
      std::bit_cast<std::int32_t>(kRoundToStep);
  const std::int32_t finite = (clamped < kLeastNormalBits ? subnormal : normal) | sign;
  return static_cast<std::uint8_t>(magnitude > kInfinityBits ? kNanByte : finite);
}

// A slot is what shares one scale; its steps run along the contraction axis. Strides in elements.
struct Source {
  const void* data;
  Element element;
  std::int64_t slot_stride;
  std::int64_t step_stride;
};
struct Sink {
  std::uint8_t* bytes;
  std::int64_t slot_stride;
  std::int64_t step_stride;
};
struct Extent {
  std::int64_t slots;
  std::int64_t steps;
};

// Writes scales[0 .. slots) and every byte of the sink's slots x steps.
void quantize(const Source& source, const Sink& sink, const Extent& extent, ScaleRounding rounding,
              float* scales);

}  // namespace shardfuzz::fp8
