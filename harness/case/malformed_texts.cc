#include "harness/case/malformed_texts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/random.h"
#include "harness/case/case_json.h"
#include "harness/case/detail/json_text.h"
#include "harness/case/test_cases.h"

namespace shardfuzz {
namespace {

using nlohmann::ordered_json;
using Pointer = ordered_json::json_pointer;

// Stands in a tree for text that no tree can hold, such as NaN.
constexpr std::string_view kMark = "@@raw@@";
constexpr int kTruncations = 40;

// Replaces the first `from`, which must be there.
std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t place = text.find(from);
  SHARDFUZZ_CHECK(place != std::string::npos, "'{}' is not in the text", from);
  return text.replace(place, from.size(), to);
}

// Every value of the tree by its pointer, parents first.
void collect(const ordered_json& tree, const Pointer& at, std::vector<Pointer>* out) {
  out->push_back(at);
  if (!tree.is_structured()) return;
  std::size_t index = 0;
  for (const auto& [key, value] : tree.items()) {
    collect(value, tree.is_array() ? at / index : at / key, out);
    ++index;
  }
}

// JSON that cannot stand where `value` stands.
std::vector<std::string> wrong_for(const ordered_json& value, const std::string& pointer) {
  // null is right for an optional dtype, and true for this field of many types.
  const bool takes_null = pointer.find("_dtype") != std::string::npos;
  const bool takes_any = pointer.ends_with("reshard_after_forward");
  std::vector<std::string> wrong;
  if (value.is_object()) wrong = {"[]", "\"text\"", "7", "null", "[{}]"};
  if (value.is_array()) wrong = {"{}", "\"text\"", "7", "null", "true"};
  if (value.is_string()) wrong = {"{}", "[]", "7", "false", "1.5", "[\"x\"]"};
  if (value.is_boolean()) wrong = {"\"yes\"", "[]", "{}", "0.0", "TRUE"};
  if (value.is_number()) {
    wrong = {"\"7\"",
             "[]",
             "{}",
             "1.5",
             "1e400",
             "-1e400",
             "NaN",
             "Infinity",
             "-Infinity",
             "-1000000",
             "1000000000000000000000000000000",
             "-9223372036854775809",
             "1e3",
             "0x10",
             "01",
             "+1",
             ".5",
             "1."};
    if (!takes_any) wrong.emplace_back("true");
  }
  if (!value.is_structured() && !takes_null && !takes_any) wrong.emplace_back("null");
  return wrong;
}

class Generator {
 public:
  explicit Generator(std::uint64_t seed)
      : random_(seed),
        good_text_(canonical_text(good_case())),
        good_(ordered_json::parse(good_text_)) {
    collect(good_, Pointer(), &pointers_);
  }

  std::vector<MalformedText> make() {
    add_truncated();
    add_wrong_values();
    add_keys();
    add_encodings();
    add_nesting();
    add_sizes_and_rubbish();
    for (const BrokenCase& row : broken_cases()) add("rule_" + row.name, canonical_text(row.c));
    return std::move(texts_);
  }

 private:
  void add(const std::string& name, std::string text) {
    std::string safe = fmt::format("{:04}_{}", texts_.size(), name);
    std::replace(safe.begin(), safe.end(), '/', '.');
    texts_.push_back({.name = std::move(safe), .text = std::move(text)});
  }

  // A proper beginning of one object is never a whole one (its last byte is its brace).
  void add_truncated() {
    const std::size_t whole = good_text_.rfind('}');
    for (int i = 0; i < kTruncations; ++i) {
      add("truncated", good_text_.substr(0, 1 + random_.below(whole - 1)));
    }
    add("truncated_last_brace", good_text_.substr(0, whole));
  }

  // Each value of the file once with another type; each number twice more.
  void add_wrong_values() {
    for (const Pointer& pointer : pointers_) {
      const std::vector<std::string> wrong = wrong_for(good_[pointer], pointer.to_string());
      const int rounds = good_[pointer].is_number() ? 3 : 1;
      for (int i = 0; i < rounds; ++i) {
        ordered_json tree = good_;
        tree[pointer] = kMark;
        const std::string mark = fmt::format("\"{}\"", kMark);
        add("wrong" + pointer.to_string(),
            replaced(tree.dump(2), mark, wrong[random_.below(wrong.size())]));
      }
    }
  }

  // In each object: one field too many, one field twice, and one typing error in a name.
  void add_keys() {
    for (const Pointer& pointer : pointers_) {
      const ordered_json& object = good_[pointer];
      if (!object.is_object() || object.empty()) continue;
      const std::string at = pointer.to_string();
      const std::string key = std::next(object.begin(), choose(object.size())).key();
      ordered_json tree = good_;
      tree[pointer][std::string(kMark)] = 1;
      add("unknown" + at, replaced(tree.dump(), kMark, "surprise"));
      add("twice" + at, replaced(tree.dump(), kMark, key));
      add("no_name" + at, replaced(tree.dump(), kMark, ""));
      add("misspelt" + at, replaced(tree.dump(), kMark, key + "s"));
    }
    for (const char* field : {"/schema", "/groups", "/groups/0/name", "/groups/1/params/0/name",
                              "/groups/1/params/1/shape"}) {
      const Pointer pointer(field);
      ordered_json tree = good_;
      tree[pointer.parent_pointer()].erase(pointer.back());
      add(std::string("missing") + field, tree.dump(2));
    }
  }

  // Bytes that are no UTF-8, and escapes that are no character, within a text and within a key.
  void add_encodings() {
    const std::vector<std::string> bad{"\xff",
                                       "\xc0\xaf",
                                       "\xed\xa0\x80",
                                       "\xe4\xb8",
                                       "\x80",
                                       "\xf5\x80\x80\x80",
                                       "\xf0\x80\x80\x80",
                                       "\\ud800",
                                       "\\udc00\\ud800",
                                       "\\x41",
                                       "\\u12",
                                       std::string(1, '\0'),
                                       "\n",
                                       "\x1b[31m"};
    for (const std::string& bytes : bad) {
      ordered_json tree = good_;
      tree["origin"]["note"] = kMark;
      add("bytes_in_text", replaced(tree.dump(), kMark, bytes));
      tree = good_;
      tree["origin"][std::string(kMark)] = "";
      add("bytes_in_key", replaced(tree.dump(), kMark, bytes));
    }
    add("byte_order_mark", "\xef\xbb\xbf" + good_text_);
    std::string wide;
    for (const char c : good_text_) wide += {c, '\0'};
    add("utf16", "\xff\xfe" + wide);
    add("utf16_unmarked", wide);
  }

  void add_nesting() {
    const std::size_t deep = 100000;
    add("deep_arrays", std::string(deep, '['));
    add("deep_arrays_closed", std::string(deep, '[') + std::string(deep, ']'));
    std::string objects;
    for (std::size_t i = 0; i < deep; ++i) objects += R"({"a":)";
    add("deep_objects", objects);
    for (const std::size_t levels : {5UL, 29UL, 33UL, 1000UL}) {
      const std::string array = std::string(levels, '[') + std::string(levels, ']');
      for (const char* field : {"seed", "groups", "operations", "compare_meshes", "unknown"}) {
        ordered_json tree = good_;
        tree[field] = kMark;
        add(fmt::format("nested_{}_{}", levels, field),
            replaced(tree.dump(), fmt::format("\"{}\"", kMark), array));
      }
    }
  }

  void add_sizes_and_rubbish() {
    const std::size_t large = std::size_t{2} << 20;
    add("large_blank_end", good_text_ + std::string(large, ' '));
    add("large_text", "\"" + std::string(large, 'x') + "\"");
    ordered_json tree = good_;
    tree["origin"]["note"] = std::string(large, 'x');
    add("large_note", tree.dump());
    tree["origin"]["note"] = "";
    tree[std::string(100000, 'k')] = 1;
    add("long_key", tree.dump());
    for (const char* schema : {"shardfuzz.case/2", "shardfuzz.case/1 ", "shardfuzz.case", ""}) {
      tree = good_;
      tree["schema"] = schema;
      add("schema", tree.dump(2));
    }
    for (const char* text : {"",
                             " ",
                             "\n\n\t \r\n",
                             "{}",
                             "[]",
                             "null",
                             "true",
                             "7",
                             "\"shardfuzz.case/1\"",
                             "{",
                             "}",
                             "[",
                             "{\"schema\"",
                             "{\"schema\":\"shardfuzz.case/1\"}",
                             "{'schema': 'shardfuzz.case/1'}",
                             "{schema: 1}",
                             "nul",
                             "NaN",
                             "-",
                             "1e999",
                             "// comment\n{}",
                             "<html></html>",
                             "\177ELF",
                             "{\"schema\":\"shardfuzz.case/1\",\"groups\":[]}",
                             "../../etc/passwd"}) {
      add("rubbish", text);
    }
    for (const char* tail : {"x", "{}", ",", "]", "}", "/* */", "\x1a", "\xff", "null"}) {
      add("tail", good_text_ + tail);
    }
    add("tail_nul", good_text_ + std::string(1, '\0'));
    add("tail_nul_rubbish", good_text_ + std::string(1, '\0') + "rubbish");
    add("twice_over", good_text_ + good_text_);
    add("trailing_comma",
        replaced(good_text_, "\"name\": \"good-case.1\",", "\"name\": \"good-case.1\",,"));
    add("comment", replaced(good_text_, "{", "{ // why\n"));
  }

  std::ptrdiff_t choose(std::size_t count) {
    return static_cast<std::ptrdiff_t>(random_.below(count));
  }

  Random random_;
  std::string good_text_;
  ordered_json good_;
  std::vector<Pointer> pointers_;
  std::vector<MalformedText> texts_;
};

}  // namespace

std::vector<MalformedText> malformed_texts(std::uint64_t seed) { return Generator(seed).make(); }

}  // namespace shardfuzz
