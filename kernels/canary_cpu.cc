#include "kernels/canary.h"

namespace shardfuzz::kernels {

void poison_fill_cpu(void* data, std::uint64_t bytes, std::uint64_t pattern) {
  auto* to = static_cast<std::uint8_t*>(data);
  for (std::uint64_t i = 0; i < bytes; ++i) {
    to[i] = static_cast<std::uint8_t>(pattern >> (i % 8 * 8));
  }
}

std::uint64_t canary_scan_cpu(const void* data, std::uint64_t bytes, std::uint64_t pattern) {
  const auto* from = static_cast<const std::uint8_t*>(data);
  for (std::uint64_t i = 0; i < bytes; ++i) {
    if (from[i] != static_cast<std::uint8_t>(pattern >> (i % 8 * 8))) return i;
  }
  return kIntact;
}

}  // namespace shardfuzz::kernels
