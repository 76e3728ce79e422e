// The digest on a GPU is that of harness/base/hash.h (whose own values base_test holds).
#include "kernels/digest.h"

#include "harness/base/hash.h"
#include "kernels/test_device.h"

namespace shardfuzz::kernels {
namespace {

TEST(Digest, RefusesNullPointers) {
  std::uint64_t value = 0;
  EXPECT_EQ(digest(&value, 8, nullptr, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(digest(nullptr, 8, &value, nullptr), cudaErrorInvalidValue);
}

TEST(Digest, GpuAsCpu) {
  SHARDFUZZ_NEEDS_GPU();
  Random random(1);
  const DeviceBytes value(Bytes(8));
  for (int i = 0; i < 500; ++i) {
    const std::size_t size = random.below(random.chance(10) ? 5000000 : 200);
    const Bytes content = random_bytes(&random, size);
    const DeviceBytes data(content, random.below(16));
    EXPECT_CUDA(digest(data.data(), size, value.as<std::uint64_t>(), nullptr));
    std::uint64_t found = 0;
    const Bytes raw = value.read();
    std::memcpy(&found, raw.data(), 8);
    EXPECT_EQ(hex64(found), hex64(tensor_digest(content.data(), size))) << size << " bytes";
  }
}

}  // namespace
}  // namespace shardfuzz::kernels
