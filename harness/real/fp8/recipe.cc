#include "harness/real/fp8/recipe.h"

#include <algorithm>

namespace shardfuzz::fp8 {
namespace {

constexpr std::int64_t kTile = 64;  // slots and steps of a block in quantize_across

inline std::uint32_t bits_of(float raw) { return std::bit_cast<std::uint32_t>(raw); }
inline std::uint32_t bits_of(std::uint16_t raw) {  // bf16: the upper half of a float
  return static_cast<std::uint32_t>(raw) << 16;
}

template <typename Raw>
inline float float_of(Raw raw) {
  return std::bit_cast<float>(bits_of(raw));
}

// |raw| as bits, which order like the values; 0 for a NaN, so that a maximum drops it. Integers,
// since compilers must not reorder a float maximum.
template <typename Raw>
inline std::int32_t magnitude_bits(Raw raw) {
  const auto bits = static_cast<std::int32_t>(bits_of(raw) & 0x7FFFFFFFU);
  return bits > 0x7F800000 ? 0 : bits;
}

inline std::int32_t larger(std::int32_t a, std::int32_t b) { return a > b ? a : b; }

inline float scale_of_bits(std::int32_t amax_bits, ScaleRounding rounding) {
  const double amax = std::max(static_cast<double>(std::bit_cast<float>(amax_bits)), kAmaxFloor);
  const auto scale = static_cast<float>(static_cast<double>(kMaxE4m3) / amax);
  if (rounding == ScaleRounding::kNone) return scale;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scale) & 0x7F800000U);
}

// Steps lie next to each other in memory on both sides: one slot after the other.
template <typename Raw>
inline void quantize_along(const Source& source, const Sink& sink, const Extent& extent,
                           ScaleRounding rounding, float* __restrict scales) {
  const std::int64_t steps = extent.steps;  // bytes may alias anything: read it once
  for (std::int64_t slot = 0; slot < extent.slots; ++slot) {
    const Raw* __restrict in = static_cast<const Raw*>(source.data) + slot * source.slot_stride;
    std::uint8_t* __restrict out = sink.bytes + slot * sink.slot_stride;
    std::int32_t amax = 0;
    for (std::int64_t i = 0; i < steps; ++i) amax = larger(amax, magnitude_bits(in[i]));
    const float scale = scale_of_bits(amax, rounding);
    for (std::int64_t i = 0; i < steps; ++i) out[i] = e4m3_of(float_of(in[i]) * scale);
    scales[slot] = scale;
  }
}

// Any strides, fast where slots lie next to each other: a block of slots at a time, its bytes
// turned over in a tile.
template <typename Raw, bool kUnitSlots>
inline void quantize_across(const Source& source, const Sink& sink, const Extent& extent,
                            ScaleRounding rounding, float* __restrict scales) {
  const std::int64_t slot_stride = kUnitSlots ? 1 : source.slot_stride;
  for (std::int64_t first = 0; first < extent.slots; first += kTile) {
    const std::int64_t width = std::min(kTile, extent.slots - first);
    const Raw* __restrict in = static_cast<const Raw*>(source.data) + first * slot_stride;
    std::int32_t amax[kTile] = {};
    for (std::int64_t step = 0; step < extent.steps; ++step) {
      const Raw* __restrict row = in + step * source.step_stride;
      for (std::int64_t j = 0; j < width; ++j) {
        amax[j] = larger(amax[j], magnitude_bits(row[j * slot_stride]));
      }
    }
    for (std::int64_t j = 0; j < width; ++j) {
      scales[first + j] = scale_of_bits(amax[j], rounding);
    }
    for (std::int64_t base = 0; base < extent.steps; base += kTile) {
      const std::int64_t height = std::min(kTile, extent.steps - base);
      std::uint8_t tile[kTile][kTile];
      for (std::int64_t t = 0; t < height; ++t) {
        const Raw* __restrict row = in + (base + t) * source.step_stride;
        for (std::int64_t j = 0; j < width; ++j) {
          tile[t][j] = e4m3_of(float_of(row[j * slot_stride]) * scales[first + j]);
        }
      }
      for (std::int64_t j = 0; j < width; ++j) {
        std::uint8_t* __restrict out =
            sink.bytes + (first + j) * sink.slot_stride + base * sink.step_stride;
        for (std::int64_t t = 0; t < height; ++t) out[t * sink.step_stride] = tile[t][j];
      }
    }
  }
}

template <typename Raw>
inline void quantize_as(const Source& source, const Sink& sink, const Extent& extent,
                        ScaleRounding rounding, float* scales) {
  if (source.step_stride == 1 && sink.step_stride == 1) {
    quantize_along<Raw>(source, sink, extent, rounding, scales);
  } else if (source.slot_stride == 1) {
    quantize_across<Raw, true>(source, sink, extent, rounding, scales);
  } else {
    quantize_across<Raw, false>(source, sink, extent, rounding, scales);
  }
}

void quantize_float32(const Source& source, const Sink& sink, const Extent& extent,
                      ScaleRounding rounding, float* scales) {
  quantize_as<float>(source, sink, extent, rounding, scales);
}

void quantize_bfloat16(const Source& source, const Sink& sink, const Extent& extent,
                       ScaleRounding rounding, float* scales) {
  quantize_as<std::uint16_t>(source, sink, extent, rounding, scales);
}

}  // namespace

float encode_scale(float amax, ScaleRounding rounding) {
  return scale_of_bits(magnitude_bits(amax), rounding);
}

void quantize(const Source& source, const Sink& sink, const Extent& extent, ScaleRounding rounding,
              float* scales) {
  switch (source.element) {
    case Element::kFloat32:
      return quantize_float32(source, sink, extent, rounding, scales);
    case Element::kBfloat16:
      return quantize_bfloat16(source, sink, extent, rounding, scales);
  }
}

}  // namespace shardfuzz::fp8
