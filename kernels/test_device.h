// Memory of a GPU for the kernel tests: between guards that show any byte written outside.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "harness/base/random.h"

namespace shardfuzz::kernels {

inline bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

#define SHARDFUZZ_NEEDS_GPU() \
  if (!::shardfuzz::kernels::has_gpu()) GTEST_SKIP() << "no GPU here"

#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess) << cudaGetErrorString(cudaGetLastError())

using Bytes = std::vector<std::uint8_t>;

// `offset` moves the data off their alignment.
class DeviceBytes {
 public:
  static constexpr std::size_t kGuard = 64;

  explicit DeviceBytes(const Bytes& content, std::size_t offset = 0)
      : size_(content.size()), offset_(kGuard + offset) {
    EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&memory_), size_ + offset_ + kGuard));
    EXPECT_CUDA(cudaMemset(memory_, kGuardByte, size_ + offset_ + kGuard));
    if (size_ != 0) {
      EXPECT_CUDA(cudaMemcpy(data(), content.data(), size_, cudaMemcpyHostToDevice));
    }
  }
  ~DeviceBytes() { cudaFree(memory_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  std::uint8_t* data() const { return memory_ + offset_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data());
  }

  // The content; fails the test if a guard was written.
  Bytes read() const {
    Bytes all(size_ + offset_ + kGuard);
    EXPECT_CUDA(cudaMemcpy(all.data(), memory_, all.size(), cudaMemcpyDeviceToHost));
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i >= offset_ && i < offset_ + size_) continue;
      if (all[i] != kGuardByte) {
        ADD_FAILURE() << "byte "
                      << static_cast<std::int64_t>(i) - static_cast<std::int64_t>(offset_)
                      << " of a buffer of " << size_ << " was written";
        break;
      }
    }
    return {all.begin() + static_cast<std::ptrdiff_t>(offset_),
            all.begin() + static_cast<std::ptrdiff_t>(offset_ + size_)};
  }

 private:
  static constexpr std::uint8_t kGuardByte = 0xA5;
  std::size_t size_, offset_;
  std::uint8_t* memory_ = nullptr;
};

inline Bytes random_bytes(Random* random, std::size_t count) {
  Bytes bytes(count);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random->below(256));
  return bytes;
}

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// The first place where two contents differ, or -1.
inline std::int64_t first_difference(const Bytes& a, const Bytes& b) {
  if (a.size() != b.size()) return 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return static_cast<std::int64_t>(i);
  }
  return -1;
}

}  // namespace shardfuzz::kernels
