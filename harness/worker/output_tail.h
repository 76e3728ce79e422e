// OutputTail: the end of what a worker printed, in bounded memory.
//
// Guarantees: holds the last kOutputTailBytes bytes, whatever was appended; what lines() and
// printable() give is valid UTF-8 without control characters but newline and tab, so that it can go
// into JSON and onto a terminal. Use:  tail.append(data, n);  ...  lost.output_tail =
// tail.lines(20);
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shardfuzz {

inline constexpr std::size_t kOutputTailBytes = std::size_t{64} << 10;
inline constexpr int kOutputTailLines = 20;

class OutputTail {
 public:
  void append(std::string_view bytes);
  // The last `line_count` lines (the last one may lack its newline).
  [[nodiscard]] std::string lines(int line_count) const;
  [[nodiscard]] std::size_t held_bytes() const { return text().size(); }

 private:
  [[nodiscard]] std::string_view text() const;
  std::string bytes_;  // at most twice the bound: cut only when that is reached
};

// `text` with every byte that is not printable UTF-8 replaced by '?'.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace shardfuzz
