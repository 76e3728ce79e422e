// The quantizers: torchao's layouts against a model with plain indices, and GPU against CPU, byte
// for byte, on sizes that reach every kernel and both sides of each of their limits.
#include "kernels/quantize.h"

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/test_device.h"

namespace shardfuzz::kernels {
namespace {

struct Layout {
  std::int64_t problem, slot, step;
};

struct Quantization {
  fp8::Element element = fp8::Element::kBfloat16;
  std::int64_t problems = 1, slots = 1, steps = 1;
  Layout from, to;
  std::vector<std::int32_t> ends;  // of groups; empty: `problems` of all steps each
  fp8::ScaleRounding rounding = fp8::ScaleRounding::kPowerOfTwo;
  std::size_t source_offset = 0, bytes_offset = 0;  // off the alignment
};

std::int64_t scale_rows(const Quantization& q) {
  return q.ends.empty() ? q.problems : static_cast<std::int64_t>(q.ends.size());
}

std::int64_t elements_of(const Quantization& q, const Layout& layout) {
  if (q.problems * q.slots * q.steps == 0) return 0;
  const std::int64_t last =
      (q.problems - 1) * layout.problem + (q.slots - 1) * layout.slot + (q.steps - 1) * layout.step;
  return last + 1;
}

std::size_t element_size(fp8::Element element) { return element == fp8::Element::kFloat32 ? 4 : 2; }

struct Quantized {
  Bytes bytes, scales;
};

void launch(const Quantization& q, const void* data, std::uint8_t* bytes, float* scales,
            const std::int32_t* device_ends) {
  const fp8::Source source = {data, q.element, q.from.slot, q.from.step};
  const fp8::Sink sink = {bytes, q.to.slot, q.to.step};
  const fp8::Extent extent = {q.slots, q.steps};
  const Problems problems = {q.problems, q.from.problem, q.to.problem};
  const Groups groups = {device_ends, static_cast<std::int64_t>(q.ends.size())};
  if (q.ends.empty()) {
    EXPECT_CUDA(quantize(source, sink, extent, problems, q.rounding, scales, nullptr));
  } else {
    EXPECT_CUDA(quantize_groups(source, sink, extent, groups, q.rounding, scales, nullptr));
  }
}

// `before`: what the output held, so that bytes between the slots are compared too.
Quantized on_gpu(const Quantization& q, const Bytes& source, const Quantized& before) {
  const DeviceBytes data(source, q.source_offset), bytes(before.bytes, q.bytes_offset);
  const DeviceBytes scales(before.scales), ends(bytes_of(q.ends));
  launch(q, data.data(), bytes.data(), scales.as<float>(), ends.as<std::int32_t>());
  return {bytes.read(), scales.read()};
}

Quantized on_cpu(const Quantization& q, const Bytes& source, Quantized out) {
  const fp8::Source from = {source.data(), q.element, q.from.slot, q.from.step};
  const fp8::Sink to = {out.bytes.data(), q.to.slot, q.to.step};
  const fp8::Extent extent = {q.slots, q.steps};
  std::vector<float> scales(out.scales.size() / 4);
  std::memcpy(scales.data(), out.scales.data(), out.scales.size());
  if (q.ends.empty()) {
    quantize_cpu(from, to, extent, {q.problems, q.from.problem, q.to.problem}, q.rounding,
                 scales.data());
  } else {
    quantize_groups_cpu(from, to, extent, {q.ends.data(), static_cast<std::int64_t>(q.ends.size())},
                        q.rounding, scales.data());
  }
  out.scales = bytes_of(scales);
  return out;
}

float edge_value(Random* random) {
  constexpr float kEdges[] = {0.0F,
                              -0.0F,
                              448.0F,
                              -448.0F,
                              464.0F,
                              1e-12F,
                              -1e-13F,
                              1e-40F,
                              -1e-40F,
                              0x1p-9F,
                              0x1.8p-9F,
                              0x1p127F,
                              std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()};
  return kEdges[random->below(std::size(kEdges))];
}

// Magnitudes over many binades; edge values in some cases only, as one inf decides a whole slot.
Bytes random_source(Random* random, const Quantization& q) {
  const auto count = static_cast<std::size_t>(elements_of(q, q.from));
  const int edges = random->chance(50) ? 0 : 1;
  Bytes bytes(count * element_size(q.element));
  for (std::size_t i = 0; i < count; ++i) {
    const float sign = random->chance(50) ? 1.0F : -1.0F;
    const float mantissa = 1.0F + static_cast<float>(random->below(1 << 20)) * 0x1p-20F;
    float value = sign * std::ldexp(mantissa, static_cast<int>(random->between(-14, 6)));
    if (edges != 0 && random->below(64) == 0) value = edge_value(random);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t raw = q.element == fp8::Element::kFloat32 ? bits : bits >> 16;
    std::memcpy(bytes.data() + i * element_size(q.element), &raw, element_size(q.element));
  }
  return bytes;
}

std::string described(const Quantization& q) {
  const auto text = [](const Layout& layout) {
    return std::to_string(layout.problem) + "," + std::to_string(layout.slot) + "," +
           std::to_string(layout.step);
  };
  std::string ends;
  for (const std::int32_t end : q.ends) ends += " " + std::to_string(end);
  return std::to_string(q.problems) + " x " + std::to_string(q.slots) + " slots of " +
         std::to_string(q.steps) + ", from " + text(q.from) + " to " + text(q.to) + ", ends" +
         ends + ", element " + std::to_string(static_cast<int>(q.element)) + ", offsets " +
         std::to_string(q.source_offset) + " " + std::to_string(q.bytes_offset);
}

void expect_gpu_as_cpu(Random* random, const Quantization& q) {
  const Bytes source = random_source(random, q);
  const Quantized before = {
      random_bytes(random, static_cast<std::size_t>(elements_of(q, q.to))),
      random_bytes(random, static_cast<std::size_t>(scale_rows(q) * q.slots) * 4)};
  const Quantized gpu = on_gpu(q, source, before), cpu = on_cpu(q, source, before);
  EXPECT_EQ(first_difference(gpu.scales, cpu.scales), -1) << "scales: " << described(q);
  EXPECT_EQ(first_difference(gpu.bytes, cpu.bytes), -1) << "bytes: " << described(q);
}

Quantization rows_of(std::int64_t problems, std::int64_t slots, std::int64_t steps,
                     std::int64_t slack = 0) {
  const std::int64_t line = steps + slack;
  return {.problems = problems,
          .slots = slots,
          .steps = steps,
          .from = {slots * line, line, 1},
          .to = {slots * line, line, 1}};
}

Quantization columns_of(std::int64_t problems, std::int64_t slots, std::int64_t steps,
                        std::int64_t slack = 0) {
  return {.problems = problems,
          .slots = slots,
          .steps = steps,
          .from = {steps * (slots + slack), 1, slots + slack},
          .to = {slots * (steps + slack), steps + slack, 1}};
}

// The operators by plain indices: the strides of the header's table say the same.
TEST(QuantizeCpu, LayoutsOfTheOperators) {
  constexpr std::int64_t kExperts = 2, kDepth = 3, kColumns = 5;
  std::vector<float> x(kExperts * kDepth * kColumns);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * i % 37) - 11.0F;
  std::vector<std::uint8_t> bytes(x.size());
  std::vector<float> scales(kExperts * kColumns);
  // fp8_colwise_3d, N next: one scale for each (expert, column).
  quantize_cpu({x.data(), fp8::Element::kFloat32, 1, kColumns}, {bytes.data(), kDepth, 1},
               {kColumns, kDepth}, {kExperts, kDepth * kColumns, kDepth * kColumns},
               fp8::ScaleRounding::kPowerOfTwo, scales.data());
  for (std::int64_t e = 0; e < kExperts; ++e) {
    for (std::int64_t n = 0; n < kColumns; ++n) {
      float amax = 0;
      for (std::int64_t k = 0; k < kDepth; ++k) {
        amax = std::max(amax, std::fabs(x[(e * kDepth + k) * kColumns + n]));
      }
      const float scale = fp8::encode_scale(amax, fp8::ScaleRounding::kPowerOfTwo);
      EXPECT_EQ(scales[e * kColumns + n], scale);
      for (std::int64_t k = 0; k < kDepth; ++k) {
        EXPECT_EQ(bytes[(e * kColumns + n) * kDepth + k],
                  fp8::e4m3_of(x[(e * kDepth + k) * kColumns + n] * scale));
      }
    }
  }
}

TEST(QuantizeCpu, GroupsCutTheSteps) {
  // One slot of steps 1, 2, 3, 4; groups [0, 2), none, [2, 3); step 3 belongs to none.
  const std::vector<float> x = {1, 2, 3, 4};
  const std::vector<std::int32_t> ends = {2, 2, 3};
  Bytes bytes(4, 0xEE);
  std::vector<float> scales(3);
  quantize_groups_cpu({x.data(), fp8::Element::kFloat32, 4, 1}, {bytes.data(), 4, 1}, {1, 4},
                      {ends.data(), 3}, fp8::ScaleRounding::kPowerOfTwo, scales.data());
  EXPECT_EQ(scales, (std::vector<float>{128.0F, 0x1p48F, 128.0F}));
  EXPECT_EQ(bytes, (Bytes{fp8::e4m3_of(128), fp8::e4m3_of(256), fp8::e4m3_of(384), 0xEE}));
}

TEST(QuantizeCpu, EndsThatFallOrRunOverAreClamped) {
  const std::vector<float> x = {1, 2, 3};
  const std::vector<std::int32_t> ends = {2, 1, 9};  // [0, 2), none, [1, 3): as on the GPU
  Bytes bytes(3);
  std::vector<float> scales(3);
  quantize_groups_cpu({x.data(), fp8::Element::kFloat32, 3, 1}, {bytes.data(), 3, 1}, {1, 3},
                      {ends.data(), 3}, fp8::ScaleRounding::kPowerOfTwo, scales.data());
  EXPECT_EQ(scales, (std::vector<float>{128.0F, 0x1p48F, 128.0F}));
}

TEST(Quantize, RefusesWhatCannotBe) {
  float scale = 0;
  const auto refused = [&](std::int64_t slots, std::int64_t steps, std::int64_t problems,
                           float* scales) {
    return quantize({nullptr, fp8::Element::kFloat32, 1, 1}, {nullptr, 1, 1}, {slots, steps},
                    {problems, 0, 0}, fp8::ScaleRounding::kNone, scales, nullptr);
  };
  EXPECT_EQ(refused(-1, 1, 1, &scale), cudaErrorInvalidValue);
  EXPECT_EQ(refused(1, -1, 1, &scale), cudaErrorInvalidValue);
  EXPECT_EQ(refused(1, 1, 65536, &scale), cudaErrorInvalidValue);
  EXPECT_EQ(refused(1, 0, 1, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(refused(1, 1, 1, &scale), cudaErrorInvalidValue);
  EXPECT_EQ(refused(0, 1, 1, nullptr), cudaSuccess);
}

TEST(Quantize, RowsOfEveryLength) {
  SHARDFUZZ_NEEDS_GPU();
  Random random(1);
  for (const std::int64_t steps : {0, 1, 7, 8, 16, 256, 264, 512, 520, 1024, 1032, 2048, 4096, 5120,
                                   5128, 8192, 16384, 32768, 32776}) {
    for (const fp8::Element element : {fp8::Element::kBfloat16, fp8::Element::kFloat32}) {
      Quantization q = rows_of(2, 9, steps, 16);
      q.element = element;
      expect_gpu_as_cpu(&random, q);
    }
  }
}

TEST(Quantize, ColumnsOfEveryLength) {
  SHARDFUZZ_NEEDS_GPU();
  Random random(2);
  for (const std::int64_t steps :
       {0, 1, 8, 15, 16, 255, 256, 257, 512, 1024, 4096, 4104, 8192, 8208, 20000}) {
    for (const std::int64_t slots : {8, 64, 72}) {
      for (const fp8::Element element : {fp8::Element::kBfloat16, fp8::Element::kFloat32}) {
        Quantization q = columns_of(2, slots, steps, 8);
        q.element = element;
        expect_gpu_as_cpu(&random, q);
      }
    }
  }
}

std::vector<std::int32_t> random_ends(Random* random, std::int64_t steps) {
  std::vector<std::int32_t> ends;
  std::int64_t end = 0;
  for (std::uint64_t left = 1 + random->below(9); left > 0; --left) {
    if (random->chance(70)) end = random->between(end, steps);
    ends.push_back(static_cast<std::int32_t>(end));
  }
  return ends;
}

TEST(Quantize, RandomCases) {
  SHARDFUZZ_NEEDS_GPU();
  Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t unit = random.chance(60) ? 16 : 1;
    const std::int64_t slots = random.between(0, 12) * unit, steps = random.between(0, 60) * unit;
    const std::int64_t slack = random.chance(50) ? 0 : random.between(0, 3) * unit;
    const bool grouped = random.chance(40);
    const std::int64_t problems = grouped ? 1 : random.between(0, 4);
    Quantization q = random.chance(50) ? rows_of(problems, slots, steps, slack)
                                       : columns_of(problems, slots, steps, slack);
    if (random.chance(15)) q.to = q.from;
    if (grouped) q.ends = random_ends(&random, steps);
    if (random.chance(50)) q.element = fp8::Element::kFloat32;
    if (random.chance(20)) q.rounding = fp8::ScaleRounding::kNone;
    if (random.chance(30)) q.source_offset = random.below(8) * element_size(q.element);
    if (random.chance(30)) q.bytes_offset = random.below(16);
    expect_gpu_as_cpu(&random, q);
  }
}

TEST(Quantize, LongGroupsOfUnevenSize) {
  SHARDFUZZ_NEEDS_GPU();
  Random random(4);
  Quantization q = columns_of(1, 128, 40000);
  q.ends = {0, 3, 30011, 30011, 30027, 39000};
  expect_gpu_as_cpu(&random, q);
  q.ends = {};
  for (std::int32_t end = 0; end <= 40000; end += 250) q.ends.push_back(end);
  expect_gpu_as_cpu(&random, q);
}

}  // namespace
}  // namespace shardfuzz::kernels
