// The ordered reduction: rounding after each step, and GPU against CPU bit for bit.
#include "kernels/ordered_reduce.h"

#include <bit>
#include <limits>
#include <memory>

#include "kernels/test_device.h"

namespace shardfuzz::kernels {
namespace {

using Floats = std::vector<float>;

Floats reduced(const std::vector<Floats>& members, const Reduction& reduction) {
  std::vector<const void*> inputs;
  for (const Floats& member : members) inputs.push_back(member.data());
  Floats out(members[0].size());
  ordered_reduce_cpu(inputs, static_cast<std::int64_t>(out.size()), reduction, out.data());
  return out;
}

using Words = std::vector<std::uint16_t>;

Words reduced_words(const std::vector<Words>& members, const Reduction& reduction) {
  std::vector<const void*> inputs;
  for (const Words& member : members) inputs.push_back(member.data());
  Words out(members[0].size());
  ordered_reduce_cpu(inputs, static_cast<std::int64_t>(out.size()), reduction, out.data());
  return out;
}

TEST(OrderedReduceCpu, SumsInMemberOrder) {
  // (1e8 + 1) - 1e8 loses the 1; another order would keep it.
  EXPECT_EQ(reduced({{1e8F}, {1.0F}, {-1e8F}}, {.op = ReduceOp::kSum}), (Floats{0.0F}));
  EXPECT_EQ(reduced({{1e8F}, {-1e8F}, {1.0F}}, {.op = ReduceOp::kSum}), (Floats{1.0F}));
}

TEST(OrderedReduceCpu, RoundsToTheDtypeAfterEachStep) {
  // bf16 256 + 1 is 256 again, twice; at once in float it would be 258.
  const Words sums = reduced_words({{0x4380}, {0x3F80}, {0x3F80}},
                                   {.op = ReduceOp::kSum, .dtype = ReduceDtype::kBfloat16});
  EXPECT_EQ(sums, (Words{0x4380}));
  // fp16 2048 + 1 as well.
  const Words halves = reduced_words({{0x6800}, {0x3C00}, {0x3C00}},
                                     {.op = ReduceOp::kSum, .dtype = ReduceDtype::kFloat16});
  EXPECT_EQ(halves, (Words{0x6800}));
}

TEST(OrderedReduceCpu, ScalesEachMemberFirst) {
  EXPECT_EQ(reduced({{3.0F}, {5.0F}}, {.op = ReduceOp::kAverage}), (Floats{4.0F}));
  EXPECT_EQ(reduced({{3.0F}, {5.0F}}, {.op = ReduceOp::kPremulSum, .factor = 0.25}),
            (Floats{2.0F}));
  // Two thirds of the greatest fp16 fit; their sum before a division would not.
  const Words big = reduced_words({{0x7BFF}, {0x7BFF}},
                                  {.op = ReduceOp::kAverage, .dtype = ReduceDtype::kFloat16});
  EXPECT_EQ(big, (Words{0x7BFF}));
}

TEST(OrderedReduceCpu, ExtremesKeepNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Floats least = reduced({{1.0F, nan, 2.0F}, {-3.0F, 1.0F, nan}}, {.op = ReduceOp::kMin});
  EXPECT_EQ(least[0], -3.0F);
  EXPECT_TRUE(least[1] != least[1] && least[2] != least[2]);
  EXPECT_EQ(reduced({{1.0F}, {-3.0F}}, {.op = ReduceOp::kMax}), (Floats{1.0F}));
}

TEST(OrderedReduceCpu, HalvesAtTheirLimits) {
  const Reduction sum = {.op = ReduceOp::kSum, .dtype = ReduceDtype::kFloat16};
  EXPECT_EQ(reduced_words({{0x7BFF}, {0x4C00}}, sum), (Words{0x7C00}));  // 65504 + 16: inf
  EXPECT_EQ(reduced_words({{0x0001}, {0x0001}}, sum), (Words{0x0002}));  // denormals
  EXPECT_EQ(reduced_words({{0x0400}, {0x8001}}, sum), (Words{0x03FF}));
}

TEST(OrderedReduce, RefusesNoMemberAndNullPointers) {
  float value = 0;
  const void* inputs[] = {&value, nullptr};
  EXPECT_EQ(ordered_reduce({}, 1, {}, &value, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(ordered_reduce({inputs, 2}, 1, {}, &value, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(ordered_reduce({inputs, 1}, 1, {}, nullptr, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(ordered_reduce({inputs, 2}, 0, {}, nullptr, nullptr), cudaSuccess);
}

std::size_t size_of(ReduceDtype dtype) { return dtype == ReduceDtype::kFloat32 ? 4 : 2; }

// Random bits: denormals, infinities and NaN among them. A NaN's payload is nobody's promise, so
// all NaN count as one.
Bytes one_nan(Bytes bytes, ReduceDtype dtype) {
  const std::size_t size = size_of(dtype);
  for (std::size_t i = 0; i + size <= bytes.size(); i += size) {
    std::uint32_t raw = 0;
    std::memcpy(&raw, bytes.data() + i, size);
    const std::uint32_t infinity = dtype == ReduceDtype::kFloat32    ? 0x7F800000U
                                   : dtype == ReduceDtype::kBfloat16 ? 0x7F80U
                                                                     : 0x7C00U;
    const std::uint32_t magnitude = raw & (size == 4 ? 0x7FFFFFFFU : 0x7FFFU);
    if (magnitude > infinity) std::memset(bytes.data() + i, 0xFF, size);
  }
  return bytes;
}

TEST(OrderedReduce, GpuAsCpu) {
  SHARDFUZZ_NEEDS_GPU();
  Random random(1);
  for (int i = 0; i < 400; ++i) {
    const Reduction reduction = {.op = static_cast<ReduceOp>(random.below(5)),
                                 .dtype = static_cast<ReduceDtype>(random.below(3)),
                                 .factor = 1.0 / static_cast<double>(1 + random.below(9))};
    const auto members = static_cast<std::size_t>(random.chance(5) ? 256 : 1 + random.below(9));
    const std::size_t count = random.below(3000);
    std::vector<Bytes> inputs;
    std::vector<std::unique_ptr<DeviceBytes>> held;
    std::vector<const void*> on_gpu, on_cpu;
    for (std::size_t m = 0; m < members; ++m) {
      inputs.push_back(random_bytes(&random, count * size_of(reduction.dtype)));
      held.push_back(std::make_unique<DeviceBytes>(inputs.back()));
      on_gpu.push_back(held.back()->data());
    }
    for (const Bytes& input : inputs) on_cpu.push_back(input.data());
    Bytes expected(count * size_of(reduction.dtype));
    ordered_reduce_cpu(on_cpu, static_cast<std::int64_t>(count), reduction, expected.data());
    // Into the last member's own buffer: in place is right.
    EXPECT_CUDA(ordered_reduce(on_gpu, static_cast<std::int64_t>(count), reduction,
                               held.back()->data(), nullptr));
    EXPECT_EQ(first_difference(one_nan(held.back()->read(), reduction.dtype),
                               one_nan(expected, reduction.dtype)),
              -1)
        << "op " << static_cast<int>(reduction.op) << ", dtype "
        << static_cast<int>(reduction.dtype) << ", " << members << " members of " << count;
  }
}

}  // namespace
}  // namespace shardfuzz::kernels
