#include "harness/case/detail/suggest.h"

#include <algorithm>
#include <numeric>

#include "harness/base/hash.h"

namespace shardfuzz::detail {
namespace {

// Longer words are not compared: the cost grows with the square, and no field name is that long.
constexpr std::size_t kComparedLengthMax = 64;
constexpr std::size_t kQuotedBytesMax = 60;

// Levenshtein's distance, by rows.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

bool is_continuation(unsigned char byte) { return (byte & 0xc0U) == 0x80U; }

}  // namespace

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& known) {
  if (word.empty() || word.size() > kComparedLengthMax) return {};
  std::string_view best;
  // A third of the letters wrong is still a typing error; more is another word.
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string_view candidate : known) {
    if (candidate.size() > kComparedLengthMax) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string listed(const std::vector<std::string_view>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

std::string way_out(std::string_view word, const std::vector<std::string_view>& known) {
  if (known.empty()) return "there is none that could be named here; leave it out";
  const std::string_view near = nearest(word, known);
  std::string text;
  if (!near.empty()) text = "did you mean '" + std::string(near) + "'? ";
  return text + "known: " + listed(known);
}

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(byte(i))) return 0;
  }
  const unsigned char second = byte(1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second > 0x9f;
  const bool too_large = first == 0xf4 && second > 0x8f;
  return overlong || surrogate || too_large ? 0 : length;
}

std::string printable(std::string_view text, std::size_t bytes_max) {
  std::string out;
  std::string_view rest = text;
  while (!rest.empty() && out.size() < bytes_max) {
    const auto byte = static_cast<unsigned char>(rest[0]);
    std::size_t length = utf8_length(rest);
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      out += "\\x" + hex64(byte).substr(14);
      length = 1;
    } else {
      out += rest.substr(0, length);
    }
    rest.remove_prefix(length);
  }
  if (!rest.empty()) out += "...";
  return out;
}

std::string in_quotes(std::string_view text) {
  return "'" + printable(text, kQuotedBytesMax) + "'";
}

}  // namespace shardfuzz::detail
