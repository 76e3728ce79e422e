#include "harness/case/detail/json_text.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/case/detail/suggest.h"

namespace shardfuzz::detail {
namespace {

using nlohmann::json;

constexpr std::size_t kPathPartBytesMax = 60;
constexpr std::size_t kReasonBytesMax = 160;

// "case.json:3:14" for the byte at `offset`; lines and columns count from 1, columns in bytes.
std::string line_place(std::string_view text, std::string_view file_name, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column =
      newline == std::string_view::npos ? before.size() + 1 : before.size() - newline;
  return fmt::format("{}:{}:{}", place(file_name, ""), line, column);
}

// nlohmann's reason without its prefix "[json.exception.parse_error.101] parse error at ...: ".
std::string reason_of(const char* message) {
  std::string_view reason(message);
  if (const auto end = reason.find("] "); end != std::string_view::npos) {
    reason.remove_prefix(end + 2);
  }
  if (reason.starts_with("parse error at")) {
    if (const auto end = reason.find(": "); end != std::string_view::npos) {
      reason.remove_prefix(end + 2);
    }
  }
  return printable(reason, kReasonBytesMax);
}

// Builds the tree from nlohmann's events. A callback that returns false ends the reading; error_
// then says why. The reader itself keeps its nesting on the heap, so depth is only a matter of the
// tree.
class TreeBuilder final : public nlohmann::json_sax<json> {
 public:
  TreeBuilder(std::string_view text, std::string_view file_name)
      : text_(text), file_name_(file_name) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& /*spelling*/) override {
    return add(value);
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }  // no JSON text holds any

  bool start_object(std::size_t /*count*/) override { return open(json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*count*/) override { return open(json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Frame& frame = frames_.back();
    if (frame.value.contains(name)) {
      return refuse({.what = "the key " + in_quotes(name) + " appears twice in one object",
                     .where = place(file_name_, child_path(path(), name)),
                     .what_to_do = "keep one of them"});
    }
    frame.key = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const json::exception& problem) override {
    // `position` counts the bytes read, so the byte that does not fit is the one before.
    const std::size_t offset = position == 0 ? 0 : position - 1;
    return refuse({.what = reason_of(problem.what()),
                   .where = line_place(text_, file_name_, offset),
                   .what_to_do = "write plain JSON (RFC 8259) in UTF-8, without comments"});
  }

  Result<json> finish() {
    if (error_) return *std::move(error_);
    return std::move(root_);
  }

 private:
  struct Frame {
    json value;
    std::string key;  // of the member being read
  };

  std::string path() const {
    std::string text;
    for (std::size_t i = 0; i + 1 < frames_.size(); ++i) text = step(text, frames_[i]);
    return text;
  }
  static std::string step(std::string_view text, const Frame& frame) {
    return child_path(text,
                      frame.value.is_array() ? std::to_string(frame.value.size()) : frame.key);
  }

  bool open(json&& value) {
    if (frames_.size() >= static_cast<std::size_t>(kNestingMax)) {
      return refuse({.what = fmt::format("nested deeper than {} levels", kNestingMax),
                     .where = place(file_name_, path()),
                     .what_to_do = "a case needs fewer than 8 levels"});
    }
    frames_.push_back({.value = std::move(value), .key = {}});
    return true;
  }

  bool close() {
    json value = std::move(frames_.back().value);
    frames_.pop_back();
    return add(std::move(value));
  }

  template <typename Value>
  bool add(Value&& value) {
    if (frames_.empty()) {
      root_ = std::forward<Value>(value);
    } else if (Frame& frame = frames_.back(); frame.value.is_array()) {
      frame.value.emplace_back(std::forward<Value>(value));
    } else {
      frame.value[frame.key] = std::forward<Value>(value);
    }
    return true;
  }

  bool refuse(Error error) {
    error_ = std::move(error);
    return false;
  }

  std::string_view text_, file_name_;
  std::vector<Frame> frames_;
  json root_;
  std::optional<Error> error_;
};

}  // namespace

std::string child_path(std::string_view path, std::string_view key) {
  std::string out(path);
  out += '/';
  for (const char c : printable(key, kPathPartBytesMax)) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

std::string place(std::string_view file_name, std::string_view path) {
  const std::string file(file_name.empty() ? "case" : file_name);
  return path.empty() ? file : file + ": " + std::string(path);
}

Result<json> parse_json(std::string_view text, std::string_view file_name, std::size_t bytes_max) {
  if (text.size() > bytes_max) {
    return Error{
        .what = fmt::format("{} bytes of text; a case file has at most {}", text.size(), bytes_max),
        .where = place(file_name, ""),
        .what_to_do = "check that this is a case file"};
  }
  if (text.starts_with("\xef\xbb\xbf")) {
    return Error{.what = "starts with a byte order mark",
                 .where = line_place(text, file_name, 0),
                 .what_to_do = "save it as UTF-8 without a byte order mark"};
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return Error{.what = "empty",
                 .where = line_place(text, file_name, 0),
                 .what_to_do = "a case file is one JSON object; see repro_cases/schema.json"};
  }
  // nlohmann takes a zero byte for the end of the text and would ignore whatever follows it.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return Error{.what = "a zero byte",
                 .where = line_place(text, file_name, zero),
                 .what_to_do = "save it as UTF-8 text"};
  }
  TreeBuilder builder(text, file_name);
  json::sax_parse(text.begin(), text.end(), &builder, json::input_format_t::json, /*strict=*/true,
                  /*ignore_comments=*/false);
  return builder.finish();
}

}  // namespace shardfuzz::detail
