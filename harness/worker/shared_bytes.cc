#include "harness/worker/shared_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace shardfuzz {
namespace {

Error file_error(const std::string& what, const std::string& path) {
  return {.what = what + ": " + std::strerror(errno),
          .where = path,
          .what_to_do = "name a file that can be written"};
}

}  // namespace

SharedBytes::SharedBytes(int fd, std::uint8_t* data, std::string path)
    : fd_(fd), data_(data), path_(std::move(path)) {}

SharedBytes::SharedBytes(SharedBytes&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      path_(std::move(other.path_)) {}

SharedBytes::~SharedBytes() {
  if (data_ != nullptr) munmap(data_, kSharedBytes);
  if (fd_ >= 0) close(fd_);
}

Result<SharedBytes> SharedBytes::anonymous() {
  const int fd = memfd_create("shardfuzz", MFD_CLOEXEC);
  if (fd < 0) return file_error("no shared memory", "memfd_create");
  return map(fd, fmt::format("/proc/{}/fd/{}", getpid(), fd));
}

Result<SharedBytes> SharedBytes::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return file_error("cannot be opened", path);
  return map(fd, path);
}

Result<SharedBytes> SharedBytes::map(int fd, std::string path) {
  struct stat facts = {};
  SharedBytes shared(fd, nullptr, std::move(path));  // closes it where this ends early
  if (fstat(fd, &facts) != 0) return file_error("cannot be looked at", shared.path_);
  if (facts.st_size != 0 && facts.st_size != static_cast<off_t>(kSharedBytes)) {
    return Error{.what = fmt::format("holds {} bytes, not {}", facts.st_size, kSharedBytes),
                 .where = shared.path_,
                 .what_to_do = "name another file, or remove this one"};
  }
  if (facts.st_size == 0 && ftruncate(fd, kSharedBytes) != 0) {
    return file_error("cannot get its size", shared.path_);
  }
  void* data = mmap(nullptr, kSharedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return file_error("cannot be mapped", shared.path_);
  shared.data_ = static_cast<std::uint8_t*>(data);
  return shared;
}

void SharedBytes::clear() const { std::ranges::fill(bytes(), std::uint8_t{0}); }

}  // namespace shardfuzz
