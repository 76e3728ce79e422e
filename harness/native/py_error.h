// What the Python code that the native target follows would raise: type, text and place, which are
// what a signature is made of.
#pragma once

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

}  // namespace shardfuzz::native
