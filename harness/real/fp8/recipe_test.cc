// Golden vectors of the recipe, and the conversion against a slow model on every bf16 input.
#include "harness/real/fp8/recipe.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace shardfuzz::fp8 {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kBf16Max = 0x1.fep127F;

float scale_of(float amax) { return encode_scale(amax, ScaleRounding::kPowerOfTwo); }

float bf16_value(std::uint32_t pattern) { return std::bit_cast<float>(pattern << 16); }

// The nearest of the 127 finite magnitudes, ties to the even byte, found by comparing distances.
int model_e4m3(float value) {
  if (std::isnan(value)) return kNanByte;
  const double magnitude = std::min(448.0, std::fabs(static_cast<double>(value)));
  int best = 0;
  for (int byte = 1; byte < kNanByte; ++byte) {
    const double distance = std::fabs(static_cast<double>(kE4m3Values[byte]) - magnitude);
    const double best_distance = std::fabs(static_cast<double>(kE4m3Values[best]) - magnitude);
    if (distance < best_distance || (distance == best_distance && byte % 2 == 0)) best = byte;
  }
  return best | (std::signbit(value) ? 0x80 : 0);
}

struct Golden {
  float amax;
  float scale;
  int byte;
};

TEST(Recipe, AmaxGivesScaleAndByte) {
  for (const Golden& golden : std::vector<Golden>{{0.0F, 0x1p48F, 0x00},
                                                  {1e-13F, 0x1p48F, 0x5E},
                                                  {1e-12F, 0x1p48F, 0x79},
                                                  {1.0F, 0x1p8F, 0x78},
                                                  {1.75F, 0x1p8F, 0x7E},
                                                  {1.7578125F, 0x1p7F, 0x76},
                                                  {3.5F, 0x1p7F, 0x7E},
                                                  {3.515625F, 0x1p6F, 0x76},
                                                  {449.0F, 0x1p-1F, 0x76},
                                                  {kBf16Max, 0x1p-120F, 0x78},
                                                  {kInfinity, 0.0F, kNanByte}}) {
    EXPECT_EQ(scale_of(golden.amax), golden.scale) << golden.amax;
    EXPECT_EQ(e4m3_of(golden.amax * golden.scale), golden.byte) << golden.amax;
  }
}

TEST(Recipe, ScaleOfNanIsThatOfZero) {
  for (const std::uint32_t bits : {0x7FC00000U, 0xFFFFFFFFU, 0x7F800001U, 0xFF810000U}) {
    EXPECT_EQ(scale_of(std::bit_cast<float>(bits)), 0x1p48F) << std::hex << bits;
    EXPECT_EQ(e4m3_of(std::bit_cast<float>(bits)), kNanByte) << std::hex << bits;
  }
}

TEST(Recipe, UnroundedScaleIsTheQuotient) {
  EXPECT_EQ(encode_scale(3.0F, ScaleRounding::kNone), static_cast<float>(448.0 / 3.0));
  EXPECT_EQ(encode_scale(0.0F, ScaleRounding::kNone), static_cast<float>(448.0 / 1e-12));
}

// log2f rounds up in a band above 1.75 * 2^n; clearing the mantissa does not (recipe.h).
TEST(Recipe, ScaleJustAboveABoundaryIsTheLowerPower) {
  EXPECT_EQ(scale_of(std::nextafter(1.75F, 2.0F)), 0x1p7F);
  EXPECT_EQ(scale_of(std::nextafter(1.75F, 1.0F)), 0x1p8F);
}

TEST(Recipe, EveryBf16AmaxUsesTheRangeWithoutLeavingIt) {
  for (std::uint32_t pattern = 0; pattern < 0x7F80; ++pattern) {
    const float amax = bf16_value(pattern);
    const float scale = scale_of(amax);
    int exponent = 0;
    EXPECT_EQ(std::frexp(scale, &exponent), 0.5F) << "not a power of two for " << amax;
    EXPECT_LE(amax * scale, 448.0F) << amax;
    if (amax >= 1e-12F) {
      EXPECT_GT(amax * scale, 224.0F) << amax;
    }
  }
}

TEST(Recipe, GoldenBytes) {
  const std::vector<std::pair<float, int>> golden = {
      {-0.0F, 0x80},     {0x1p-10F, 0x00},   {std::nextafter(0x1p-10F, 1.0F), 0x01},
      {0x1p-9F, 0x01},   {0x1.8p-9F, 0x02},  {2.5F * 0x1p-9F, 0x02},
      {0x1p-6F, 0x08},   {1.0625F, 0x38},    {1.1875F, 0x3A},
      {232.0F, 0x76},    {240.0F, 0x77},     {248.0F, 0x78},
      {432.0F, 0x7E},    {440.0F, 0x7E},     {448.0F, 0x7E},
      {464.0F, 0x7E},    {500.0F, 0x7E},     {-500.0F, 0xFE},
      {kInfinity, 0x7E}, {-kInfinity, 0xFE}, {kNan, 0x7F},
      {-kNan, 0x7F},     {-0x1p-149F, 0x80}, {7.5F * 0x1p-9F, 0x08},
  };
  for (const auto& [value, byte] : golden) EXPECT_EQ(e4m3_of(value), byte) << value;
}

TEST(Recipe, EveryBf16InputAsTheModel) {
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const float value = bf16_value(pattern);
    ASSERT_EQ(e4m3_of(value), model_e4m3(value)) << value;
  }
}

// Around every representable number and every tie, where a wrong rounding shows.
TEST(Recipe, FloatsNextToTiesAsTheModel) {
  for (int byte = 0; byte < kNanByte - 1; ++byte) {
    const float low = kE4m3Values[byte], high = kE4m3Values[byte + 1];
    for (const float center : {low, (low + high) / 2, high}) {
      for (const float value :
           {std::nextafter(center, -1.0F), center, std::nextafter(center, kInfinity)}) {
        ASSERT_EQ(e4m3_of(value), model_e4m3(value)) << value;
        ASSERT_EQ(e4m3_of(-value), model_e4m3(-value)) << -value;
      }
    }
  }
}

TEST(Recipe, BytesSurviveTheRoundTrip) {
  for (int byte = 0; byte < 256; ++byte) {
    const float value = kE4m3Values[byte];
    if (std::isnan(value)) {
      EXPECT_EQ(byte & 0x7F, kNanByte);
    } else {
      EXPECT_EQ(e4m3_of(value), byte);
    }
  }
}

struct Layout {
  std::int64_t slots, steps, slot_stride, step_stride, out_slot_stride, out_step_stride;
};

std::int64_t span_of(std::int64_t slots, std::int64_t steps, std::int64_t slot_stride,
                     std::int64_t step_stride) {
  return (slots - 1) * slot_stride + std::max<std::int64_t>(steps - 1, 0) * step_stride + 1;
}

// quantize against encode_scale and e4m3_of, element by element.
void expect_quantize_as_the_scalars(const Layout& layout) {
  const std::int64_t in_span =
      span_of(layout.slots, layout.steps, layout.slot_stride, layout.step_stride);
  const std::int64_t out_span =
      span_of(layout.slots, layout.steps, layout.out_slot_stride, layout.out_step_stride);
  std::vector<float> input(static_cast<std::size_t>(in_span));
  for (std::size_t i = 0; i < input.size(); ++i) {
    input[i] = static_cast<float>(static_cast<int>(i * 2654435761U % 2001) - 1000) * 0.0137F;
  }
  if (input.size() > 7) input[7] = kNan;
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(out_span), 0x55);
  std::vector<float> scales(static_cast<std::size_t>(layout.slots) + 1, -1.0F);
  quantize({input.data(), Element::kFloat32, layout.slot_stride, layout.step_stride},
           {bytes.data(), layout.out_slot_stride, layout.out_step_stride},
           {layout.slots, layout.steps}, ScaleRounding::kPowerOfTwo, scales.data());
  for (std::int64_t slot = 0; slot < layout.slots; ++slot) {
    float amax = 0;
    for (std::int64_t step = 0; step < layout.steps; ++step) {
      amax =
          std::fmax(amax, std::fabs(input[slot * layout.slot_stride + step * layout.step_stride]));
    }
    ASSERT_EQ(scales[slot], scale_of(amax)) << "slot " << slot;
    for (std::int64_t step = 0; step < layout.steps; ++step) {
      const float value = input[slot * layout.slot_stride + step * layout.step_stride];
      ASSERT_EQ(bytes[slot * layout.out_slot_stride + step * layout.out_step_stride],
                e4m3_of(value * scales[slot]))
          << "slot " << slot << " step " << step;
    }
  }
  EXPECT_EQ(scales.back(), -1.0F);
}

TEST(Quantize, AnyLayout) {
  for (const std::int64_t slots : {1, 3, 64, 65, 130}) {
    for (const std::int64_t steps : {0, 1, 16, 63, 64, 129}) {
      const std::int64_t many = std::max<std::int64_t>(steps, 1);
      expect_quantize_as_the_scalars({slots, steps, many + 3, 1, many, 1});
      expect_quantize_as_the_scalars({slots, steps, 1, slots, many, 1});
      expect_quantize_as_the_scalars({slots, steps, 2, 2 * slots, many + 1, 1});
      expect_quantize_as_the_scalars({slots, steps, many, 1, 1, slots});
    }
  }
}

TEST(Quantize, Bf16AsItsFloats) {
  std::vector<std::uint16_t> input;
  std::vector<float> floats;
  for (std::uint32_t pattern = 0; pattern < 0x10000; pattern += 37) {
    input.push_back(static_cast<std::uint16_t>(pattern));
    floats.push_back(bf16_value(pattern));
  }
  const auto count = static_cast<std::int64_t>(input.size());
  std::vector<std::uint8_t> from_bf16(input.size()), from_floats(input.size());
  float scale_bf16 = 0, scale_float = 0;
  quantize({input.data(), Element::kBfloat16, count, 1}, {from_bf16.data(), count, 1}, {1, count},
           ScaleRounding::kPowerOfTwo, &scale_bf16);
  quantize({floats.data(), Element::kFloat32, count, 1}, {from_floats.data(), count, 1}, {1, count},
           ScaleRounding::kPowerOfTwo, &scale_float);
  EXPECT_EQ(from_bf16, from_floats);
  EXPECT_EQ(scale_bf16, scale_float);
}

}  // namespace
}  // namespace shardfuzz::fp8
