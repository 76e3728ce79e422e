// SharedBytes: a few KiB that several processes hold mapped: what a worker marks there, its engine
// sees at once, and still does when the worker has died.
//
// Guarantees: the bytes are 0 at first and stay where they are for the life of the object; path()
// can be opened by processes of the same user while the object lives, and of anonymous() nothing
// is left on disk. No order between processes but that of the messages they exchange.
// Refuses, as an Error: a file that cannot be opened or mapped, or that has another size than
// kSharedBytes; an empty or new file gets it.
// Thread rule: none; the bytes are the callers' to agree about.
// Use:  auto shared = SharedBytes::anonymous();  start_worker(shared->path());  shared->bytes()[7]
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "harness/base/result.h"

namespace shardfuzz {

// Room for code counters (shardfuzz_real/coverage.py): FSDP2 and the wrappers take 2,600.
inline constexpr std::size_t kSharedBytes = 16384;

class SharedBytes {
 public:
  static Result<SharedBytes> anonymous();
  static Result<SharedBytes> open(const std::string& path);
  ~SharedBytes();
  SharedBytes(SharedBytes&& other) noexcept;
  SharedBytes& operator=(SharedBytes&&) = delete;

  [[nodiscard]] std::span<std::uint8_t> bytes() const { return {data_, kSharedBytes}; }
  [[nodiscard]] const std::string& path() const { return path_; }
  void clear() const;

 private:
  SharedBytes(int fd, std::uint8_t* data, std::string path);
  static Result<SharedBytes> map(int fd, std::string path);

  int fd_;
  std::uint8_t* data_;
  std::string path_;
};

}  // namespace shardfuzz
