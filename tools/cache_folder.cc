#include "tools/cache_folder.h"

#include <cstdlib>

namespace shardfuzz {
namespace {

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string cache_folder() {
  if (const std::string own = from_environment("SHARDFUZZ_CACHE"); !own.empty()) return own;
  if (const std::string all = from_environment("XDG_CACHE_HOME"); !all.empty()) {
    return all + "/shardfuzz";
  }
  return from_environment("HOME") + "/.cache/shardfuzz";
}

}  // namespace shardfuzz
