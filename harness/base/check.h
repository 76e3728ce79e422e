// SHARDFUZZ_CHECK: a broken invariant of our own code ends the process, loudly.
//
// Never used for bad input (Result) nor for what the code under test does (Verdict). In a worker
// the abort is caught by the engine and reported as verdict `error`, so a fuzz run survives it.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace shardfuzz::detail {

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line,
                                      const std::string& message) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition, message.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace shardfuzz::detail

#define SHARDFUZZ_CHECK(condition, ...)                                 \
  do {                                                                  \
    if (!(condition)) [[unlikely]]                                      \
      ::shardfuzz::detail::check_failed(#condition, __FILE__, __LINE__, \
                                        ::fmt::format(__VA_ARGS__));    \
  } while (false)
