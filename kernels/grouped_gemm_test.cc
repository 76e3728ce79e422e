// The reference grouped GEMM: which products a grouped matmul consists of, and GPU against CPU.
#include "kernels/grouped_gemm.h"

#include "harness/real/fp8/recipe.h"
#include "kernels/test_device.h"

namespace shardfuzz::kernels {
namespace {

TEST(GroupedGemmCpu, JaggedRowsTakeEachExpertsColumns) {
  // 3 tokens of depth 2, experts [0, 1), none, [1, 2); 2 columns. Token 2 belongs to nobody.
  const auto byte = [](float value) { return fp8::e4m3_of(value); };
  const Bytes left = {byte(1), byte(2), byte(3), byte(4), byte(5), byte(6)};
  const Bytes right = {byte(1), byte(0), byte(0), byte(1),   // expert 0: columns (1,0), (0,1)
                       byte(0), byte(0), byte(0), byte(0),   //
                       byte(1), byte(1), byte(2), byte(0)};  // expert 2: (1,1), (2,0)
  const std::vector<float> left_scales = {1, 1, 1}, right_scales = {1, 1, 1, 1, 1, 0.5F};
  std::vector<std::uint16_t> out(6, 0xEEEE);
  const JaggedRows matmul = {.left = {left.data(), 2, left_scales.data()},
                             .right = {right.data(), 2, right_scales.data()},
                             .expert_stride = 4,
                             .columns = 2,
                             .depth = 2,
                             .out = {out.data(), 2}};
  const std::vector<std::int32_t> ends = {1, 1, 2};
  multiply_products_cpu(products_of(matmul, ends));
  // (1, 2), (3 + 4, 3 * 2 * 0.5), untouched.
  EXPECT_EQ(out, (std::vector<std::uint16_t>{0x3F80, 0x4000, 0x40E0, 0x4040, 0xEEEE, 0xEEEE}));
}

TEST(GroupedGemmCpu, JaggedDepthGivesZerosForNoTokens) {
  const Bytes left = {fp8::e4m3_of(2), fp8::e4m3_of(3)}, right = left;
  const std::vector<float> scales = {1, 1};
  std::vector<std::uint16_t> out(2, 0xEEEE);
  const JaggedDepth matmul = {.left = {left.data(), 2, scales.data()},
                              .right = {right.data(), 2, scales.data()},
                              .rows = 1,
                              .columns = 1,
                              .out = {out.data(), 1},
                              .group_stride = 1};
  const std::vector<std::int32_t> ends = {0, 2};
  multiply_products_cpu(products_of(matmul, ends));
  EXPECT_EQ(out, (std::vector<std::uint16_t>{0, 0x4150}));  // 0; 4 + 9
}

TEST(GroupedGemm, RefusesWhatCannotBe) {
  const std::vector<Product> negative = {{.shape = {-1, 1, 1}}};
  const std::vector<Product> no_data = {{.shape = {1, 1, 1}}};
  EXPECT_EQ(multiply_products(negative, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(multiply_products(no_data, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(multiply_products({}, nullptr), cudaSuccess);
}

std::vector<float> random_scales(Random* random, std::int64_t count) {
  std::vector<float> scales;
  for (std::int64_t i = 0; i < count; ++i) {
    scales.push_back(0x1p-8F * static_cast<float>(std::uint64_t{1} << random->below(12)));
  }
  return scales;
}

struct RandomProduct {
  fp8::ProductShape shape;
  Bytes left, right;
  std::vector<float> left_scales, right_scales;
};

RandomProduct random_product(Random* random) {
  const fp8::ProductShape shape = {random->between(0, 40), random->between(0, 40),
                                   random->between(0, 200)};
  return {shape, random_bytes(random, static_cast<std::size_t>(shape.rows * shape.depth)),
          random_bytes(random, static_cast<std::size_t>(shape.columns * shape.depth)),
          random_scales(random, shape.rows), random_scales(random, shape.columns)};
}

// Random bytes hold NaN, and random order of sums would show in the last bit.
TEST(GroupedGemm, GpuAsCpu) {
  SHARDFUZZ_NEEDS_GPU();
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    RandomProduct product = random_product(&random);
    if (random.chance(80)) {  // few NaN, or every output is one
      for (Bytes* bytes : {&product.left, &product.right}) {
        for (std::uint8_t& byte : *bytes) byte = (byte & 0x7FU) == 0x7FU ? 0x10 : byte;
      }
    }
    const fp8::ProductShape& shape = product.shape;
    const auto outputs = static_cast<std::size_t>(shape.rows * shape.columns);
    std::vector<std::uint16_t> expected(outputs, 0xEEEE);
    multiply_products_cpu(
        std::vector<Product>{{{product.left.data(), shape.depth, product.left_scales.data()},
                              {product.right.data(), shape.depth, product.right_scales.data()},
                              shape,
                              {expected.data(), shape.columns}}});
    const DeviceBytes left(product.left), right(product.right);
    const DeviceBytes left_scales(bytes_of(product.left_scales));
    const DeviceBytes right_scales(bytes_of(product.right_scales));
    const DeviceBytes out(Bytes(outputs * 2, 0xEE));
    EXPECT_CUDA(multiply_products(
        std::vector<Product>{{{left.data(), shape.depth, left_scales.as<float>()},
                              {right.data(), shape.depth, right_scales.as<float>()},
                              shape,
                              {out.as<std::uint16_t>(), shape.columns}}},
        nullptr));
    EXPECT_EQ(first_difference(out.read(), bytes_of(expected)), -1)
        << shape.rows << " x " << shape.columns << " x " << shape.depth;
  }
}

}  // namespace
}  // namespace shardfuzz::kernels
