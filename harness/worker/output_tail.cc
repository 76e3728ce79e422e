#include "harness/worker/output_tail.h"

#include <algorithm>

namespace shardfuzz {
namespace {

// Bytes of the valid multi-byte UTF-8 character that `text` begins with; 0: there is none.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t count = first >= 0xc2 && first < 0xe0   ? 2
                            : first >= 0xe0 && first < 0xf0 ? 3
                            : first >= 0xf0 && first < 0xf5 ? 4
                                                            : 0;
  if (count == 0 || text.size() < count) return 0;
  for (std::size_t i = 1; i < count; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies above U+10FFFF show in the second byte.
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) >= 0xa0) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) >= 0x90) return 0;
  return count;
}

}  // namespace

void OutputTail::append(std::string_view bytes) {
  if (bytes.size() > kOutputTailBytes) bytes.remove_prefix(bytes.size() - kOutputTailBytes);
  bytes_.append(bytes);
  if (bytes_.size() > 2 * kOutputTailBytes) bytes_.erase(0, bytes_.size() - kOutputTailBytes);
}

std::string_view OutputTail::text() const {
  std::string_view all = bytes_;
  if (all.size() > kOutputTailBytes) all.remove_prefix(all.size() - kOutputTailBytes);
  return all;
}

std::string OutputTail::lines(int line_count) const {
  const std::string_view all = text();
  // A newline at the very end closes the last line, it does not begin another one.
  std::size_t begin = all.size();
  if (begin > 0 && all.back() == '\n') --begin;
  while (begin > 0) {
    if (all[begin - 1] == '\n' && --line_count <= 0) break;
    --begin;
  }
  return printable(all.substr(begin));
}

std::string printable(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text.front());
    const bool is_plain = (first >= 0x20 && first < 0x7f) || first == '\n' || first == '\t';
    const std::size_t count = is_plain ? 1 : character_bytes(text);
    if (count == 0) {
      clean += '?';
    } else {
      clean += text.substr(0, count);
    }
    text.remove_prefix(std::max<std::size_t>(count, 1));
  }
  return clean;
}

}  // namespace shardfuzz
