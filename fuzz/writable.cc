#include "fuzz/writable.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace shardfuzz {
namespace {

Error not_writable(const std::string& what, const std::string& where) {
  return {.what = "cannot be written: " + what,
          .where = where,
          .what_to_do = "name another place with --output"};
}

}  // namespace

// Permissions alone do not tell: a full or read-only file system allows and refuses.
Status check_writable_folder(const std::string& folder) {
  std::string probe = (std::filesystem::path(folder) / ".shardfuzz.XXXXXX").string();
  const int fd = mkostemp(probe.data(), O_CLOEXEC);
  if (fd < 0) return not_writable(std::strerror(errno), folder);
  close(fd);
  unlink(probe.c_str());
  return Done{};
}

Status check_writable_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return not_writable("is a folder", path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return check_writable_folder(folder.empty() ? "." : folder.string());
}

Status make_writable_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Error{.what = error.message(),
                 .where = folder,
                 .what_to_do = "name a folder that can be written with --output"};
  }
  return check_writable_folder(folder);
}

}  // namespace shardfuzz
