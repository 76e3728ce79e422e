// Loads and saves case files.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "harness/case/case_json.h"
#include "harness/case/detail/json_text.h"

namespace shardfuzz {
namespace {

constexpr mode_t kFileMode = 0644;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool ok() const { return fd_ >= 0; }
  bool close() {
    if (fd_ < 0) return true;
    return ::close(std::exchange(fd_, -1)) == 0;
  }

 private:
  int fd_;
};

Error system_error(const std::string& what, const std::string& path, const std::string& way_out) {
  return {.what = what + ": " + std::strerror(errno), .where = path, .what_to_do = way_out};
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Reads at most one byte more than a case file may have: parse_json then refuses it for its size.
Result<std::string> read_text(int fd, const std::string& path) {
  std::string text(detail::kTextBytesMax + 1, '\0');
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t count = ::read(fd, text.data() + filled, text.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("cannot be read", path, "check the file");
    if (count == 0) break;
    filled += static_cast<std::size_t>(count);
  }
  text.resize(filled);
  return text;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool fill(int fd, std::string_view text) {
  // A temporary file is its owner's only; a case is meant to be shared.
  return ::fchmod(fd, kFileMode) == 0 && write_all(fd, text) && ::fsync(fd) == 0;
}

// A file that has no name until it is whole: a process that is killed while it writes leaves
// nothing. False where a file of that name is there already or the file system cannot do it.
bool write_unnamed(const std::string& folder, const std::string& path, std::string_view text) {
#ifdef O_TMPFILE
  Descriptor file(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.ok() || !fill(file.get(), text)) return false;
  const std::string self = "/proc/self/fd/" + std::to_string(file.get());
  return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0;
#else
  return false;
#endif
}

bool write_renamed(const std::string& path, std::string_view text) {
  std::string temporary = path + ".XXXXXX";
  Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.ok()) return false;
  if (fill(file.get(), text) && file.close() && ::rename(temporary.c_str(), path.c_str()) == 0) {
    return true;
  }
  const int reason = errno;
  ::unlink(temporary.c_str());
  errno = reason;
  return false;
}

}  // namespace

Result<Case> load_case(const std::string& path) {
  // Opened without blocking, since a pipe without a writer would otherwise wait for ever.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.ok()) {
    return system_error("cannot be opened", path.empty() ? "(empty path)" : path,
                        "give the path of a case file (.json)");
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0)
    return system_error("cannot be read", path, "check the file");
  if (!S_ISREG(info.st_mode)) {
    return Error{.what = S_ISDIR(info.st_mode) ? "is a folder" : "is not a regular file",
                 .where = path,
                 .what_to_do = "give the path of a case file (.json)"};
  }
  if (info.st_size > static_cast<off_t>(detail::kTextBytesMax)) {
    return Error{.what = fmt::format("{} bytes; a case file has at most {}", info.st_size,
                                     detail::kTextBytesMax),
                 .where = path,
                 .what_to_do = "check that this is a case file"};
  }
  const Result<std::string> text = read_text(file.get(), path);
  if (!text) return text.error();
  return parse_case(*text, path);
}

Status save_case(const Case& c, const std::string& path) {
  const std::string text = canonical_text(c);
  if (text.size() > detail::kTextBytesMax) {
    return Error{.what = fmt::format("the case takes {} bytes; a case file has at most {}",
                                     text.size(), detail::kTextBytesMax),
                 .where = path,
                 .what_to_do = "shorten its texts"};
  }
  const std::string folder = folder_of(path);
  const std::string way_out = "check that the folder exists and can be written to";
  if (!write_unnamed(folder, path, text) && !write_renamed(path, text)) {
    return system_error("cannot be written", path, way_out);
  }
  // The rename itself is safe only once the folder is on disk. Some file systems refuse this; the
  // file is whole in any case.
  Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.ok()) ::fsync(directory.get());
  return Done{};
}

}  // namespace shardfuzz
