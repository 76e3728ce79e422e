// What the Python code that the native target follows would raise: type, text and place, which are
// what a signature is made of.
#pragma once

#include <c10/util/Exception.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace shardfuzz::native {

class PyError : public std::runtime_error {
 public:
  // `where` is "file.py:function" of the innermost frame of torch or the pack.
  PyError(std::string type, const std::string& message, std::string where)
      : std::runtime_error(message), type_(std::move(type)), where_(std::move(where)) {}

  [[nodiscard]] const std::string& type() const { return type_; }
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  std::string type_, where_;
};

// What `call` gives; an error of libtorch out of it leaves as Python's, raised at `where`.
template <typename Call>
auto torch_error_at(const char* where, Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (const c10::Error& error) {
    throw PyError("RuntimeError", error.what_without_backtrace(), where);
  }
}

}  // namespace shardfuzz::native
