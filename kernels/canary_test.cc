// Fill and scan: every byte is the pattern's, and the first that is not is named.
#include "kernels/canary.h"

#include "kernels/test_device.h"

namespace shardfuzz::kernels {
namespace {

constexpr std::uint64_t kCounting = 0x0706050403020100ULL;

TEST(CanaryCpu, FillsByIndexAndFindsTheFirstDifference) {
  Bytes bytes(11);
  poison_fill_cpu(bytes.data(), bytes.size(), kCounting);
  EXPECT_EQ(bytes, (Bytes{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2}));
  EXPECT_EQ(canary_scan_cpu(bytes.data(), bytes.size(), kCounting), kIntact);
  bytes[9] = 0xFF;
  bytes[10] = 0xFF;
  EXPECT_EQ(canary_scan_cpu(bytes.data(), bytes.size(), kCounting), 9U);
  EXPECT_EQ(canary_scan_cpu(bytes.data(), 9, kCounting), kIntact);
}

TEST(CanaryCpu, AnyPartIsLookedThroughWithTheTurnedPattern) {
  Bytes bytes(40);
  poison_fill_cpu(bytes.data(), bytes.size(), kCounting);
  for (std::uint64_t from = 0; from < 20; ++from) {
    EXPECT_EQ(
        canary_scan_cpu(bytes.data() + from, bytes.size() - from, pattern_from(kCounting, from)),
        kIntact);
  }
  EXPECT_EQ(pattern_from(kCounting, 1), 0x0007060504030201ULL);
}

TEST(CanaryCpu, PoisonIsNanInEveryFloatType) {
  EXPECT_EQ(kPoison & 0xFFFF, 0xFFFBU);          // bf16, fp16: exponent all ones, mantissa not 0
  EXPECT_EQ(kPoison & 0xFFFFFFFF, 0xFFFBFFFBU);  // fp32
  EXPECT_EQ((kPoison >> 8) & 0xFF, 0xFFU);       // e4m3 and e5m2
}

TEST(Canary, GpuAsCpu) {
  SHARDFUZZ_NEEDS_GPU();
  Random random(1);
  const DeviceBytes first(Bytes(8));
  for (int i = 0; i < 300; ++i) {
    const std::size_t size = random.below(random.chance(10) ? 3000000 : 70);
    const std::uint64_t pattern = random.next();
    const DeviceBytes data(Bytes(size), random.below(16));
    EXPECT_CUDA(poison_fill(data.data(), size, pattern, nullptr));
    Bytes expected(size);
    poison_fill_cpu(expected.data(), size, pattern);
    EXPECT_EQ(first_difference(data.read(), expected), -1) << size << " bytes";
    for (int change = 0; change < 2 && size != 0; ++change) {
      const std::size_t at = random.below(size);
      expected[at] = static_cast<std::uint8_t>(expected[at] ^ (1U << random.below(8)));
      EXPECT_CUDA(cudaMemcpy(data.data() + at, &expected[at], 1, cudaMemcpyHostToDevice));
    }
    EXPECT_CUDA(canary_scan(data.data(), size, pattern, first.as<std::uint64_t>(), nullptr));
    std::uint64_t found = 0;
    const Bytes raw = first.read();
    std::memcpy(&found, raw.data(), 8);
    EXPECT_EQ(found, canary_scan_cpu(expected.data(), size, pattern)) << size << " bytes";
  }
}

}  // namespace
}  // namespace shardfuzz::kernels
