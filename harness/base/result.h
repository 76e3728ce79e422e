// Result<T>: a value, or an Error that a person can act on.
//
// Guarantees: an Error always says what is wrong, where (a file, a field path, a command line
// option) and what to do about it. Used for bad input and a bad environment only; a broken
// invariant aborts (check.h) and a finding is a Verdict (oracle/verdict.h).
// Use:  auto made = read_case(text);  if (!made) return made.error();  use(*made);
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "harness/base/check.h"

namespace shardfuzz {

struct Error {
  std::string what;        // "unknown field"
  std::string where;       // "case.json: /groups/0/params/1/shap"
  std::string what_to_do;  // "did you mean 'shape'?"; may be empty

  // One line: "where: what (what_to_do)".
  [[nodiscard]] std::string text() const {
    std::string line = where.empty() ? what : where + ": " + what;
    if (!what_to_do.empty()) line += " (" + what_to_do + ")";
    return line;
  }
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : held_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : held_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return std::holds_alternative<T>(held_); }
  explicit operator bool() const { return ok(); }

  [[nodiscard]] const T& value() const& {
    SHARDFUZZ_CHECK(ok(), "value() of a Result that holds an error: {}", error().text());
    return std::get<T>(held_);
  }
  // By value: a reference would dangle in `for (x : f().value())`.
  [[nodiscard]] T value() && {
    SHARDFUZZ_CHECK(ok(), "value() of a Result that holds an error: {}", error().text());
    return std::get<T>(std::move(held_));
  }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] const Error& error() const { return std::get<Error>(held_); }

 private:
  std::variant<T, Error> held_;
};

// The Result of something that yields no value.
struct Done {};
using Status = Result<Done>;

}  // namespace shardfuzz
