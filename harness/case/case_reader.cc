// Reads a Case from a JSON tree, field by field along the tables of detail/case_fields.h.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/case/case_json.h"
#include "harness/case/case_names.h"
#include "harness/case/detail/case_fields.h"
#include "harness/case/detail/json_text.h"
#include "harness/case/detail/suggest.h"

namespace shardfuzz {
namespace {

using detail::child_path;
using detail::in_quotes;
using nlohmann::json;

constexpr std::string_view kSchemaFile = "repro_cases/schema.json";

// What a person would call the value: "an integer 3", "the text 'abc'".
std::string described(const json& node) {
  switch (node.type()) {
    case json::value_t::null: return "null";
    case json::value_t::object: return "an object";
    case json::value_t::array: return "an array";
    case json::value_t::string: return "the text " + in_quotes(node.get_ref<const std::string&>());
    case json::value_t::boolean: return node.get<bool>() ? "true" : "false";
    case json::value_t::number_integer:
    case json::value_t::number_unsigned: return "the integer " + node.dump();
    case json::value_t::number_float: return "the number " + node.dump();
    case json::value_t::binary:
    case json::value_t::discarded: break;
  }
  return "something else";
}

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

// Each read() fills *out from `node` or, on the first problem, keeps it in error_ and returns
// false.
class TreeReader {
 public:
  explicit TreeReader(std::string_view file_name) : file_name_(file_name) {}

  Error take_error() { return std::move(error_); }

  bool read_document(json& root, Case* out) {
    if (!root.is_object()) return refuse_type("", root, "one JSON object");
    if (!check_schema(root)) return false;
    root.erase(std::string(detail::kSchemaKey));
    if (!read_fields("", root, out)) return false;
    // One spelling: the default four are written as none.
    Case defaults;
    if (out->operations == operations_of(defaults)) out->operations.clear();
    return true;
  }

 private:
  bool refuse(std::string_view path, std::string what, std::string what_to_do) {
    error_ = {.what = std::move(what),
              .where = detail::place(file_name_, path),
              .what_to_do = std::move(what_to_do)};
    return false;
  }

  bool refuse_type(std::string_view path, const json& node, const std::string& wanted) {
    return refuse(path, fmt::format("expected {}, found {}", wanted, described(node)),
                  fmt::format("write {}", wanted));
  }

  bool check_schema(const json& root) {
    const std::string wanted = fmt::format(R"("schema": "{}")", detail::kSchemaName);
    const auto found = root.find(std::string(detail::kSchemaKey));
    if (found == root.end()) {
      return refuse("/schema", "this required field is missing",
                    fmt::format("begin the object with {}", wanted));
    }
    if (!found->is_string() || found->get_ref<const std::string&>() != detail::kSchemaName) {
      return refuse("/schema", fmt::format("unknown format: {}", described(*found)),
                    fmt::format("this version reads {}", wanted));
    }
    return true;
  }

  template <typename T>
  bool read_fields(const std::string& path, const json& node, T* out) {
    if (!refuse_unknown<T>(path, node)) return false;
    bool fine = true;
    detail::for_each_field<T>([&](const auto& field) {
      if (!fine) return;
      const auto found = node.find(std::string(field.name));
      if (found != node.end()) {
        fine = read(child_path(path, field.name), *found, &(out->*field.member));
      } else if (field.presence == detail::Presence::kRequired) {
        fine = refuse(child_path(path, field.name), "this required field is missing",
                      fmt::format("add it; {} describes it", kSchemaFile));
      }
    });
    return fine;
  }

  template <typename T>
  bool refuse_unknown(const std::string& path, const json& node) {
    std::vector<std::string_view> known;
    detail::for_each_field<T>([&](const auto& field) { known.push_back(field.name); });
    for (const auto& [key, value] : node.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      return refuse(child_path(path, key), "unknown field", detail::way_out(key, known));
    }
    return true;
  }

  template <detail::HasFields T>
  bool read(const std::string& path, const json& node, T* out) {
    if (!node.is_object()) return refuse_type(path, node, "an object");
    return read_fields(path, node, out);
  }

  // An operation without arguments may be a bare word.
  bool read(const std::string& path, const json& node, Operation* out) {
    if (node.is_string()) return read(path, node, &out->kind);
    if (!node.is_object()) {
      return refuse_type(path, node, R"(an operation, such as "forward" or {"op": "forward"})");
    }
    return read_fields(path, node, out);
  }

  template <typename T>
  requires IsVector<T>::value bool read(const std::string& path, const json& node, T* out) {
    if (!node.is_array()) return refuse_type(path, node, "an array");
    out->clear();  // the file's value replaces the default
    out->reserve(node.size());
    for (std::size_t i = 0; i < node.size(); ++i) {
      typename T::value_type item{};
      if (!read(child_path(path, std::to_string(i)), node[i], &item)) return false;
      out->push_back(std::move(item));
    }
    return true;
  }

  template <typename T>
  requires IsOptional<T>::value bool read(const std::string& path, const json& node, T* out) {
    if (node.is_null()) {
      out->reset();
      return true;
    }
    typename T::value_type value{};
    if (!read(path, node, &value)) return false;
    *out = value;
    return true;
  }

  template <typename T>
  requires std::is_enum_v<T>
  bool read(const std::string& path, const json& node, T* out) {
    if (!node.is_string()) {
      return refuse_type(path, node, fmt::format("one of {}", detail::listed(names<T>())));
    }
    const auto& word = node.get_ref<const std::string&>();
    if (parse_name(word, out)) return true;
    return refuse(path, fmt::format("unknown name {}", in_quotes(word)),
                  detail::way_out(word, names<T>()));
  }

  template <typename T>
  requires std::is_integral_v<T> &&
      (!std::is_same_v<T, bool>)bool read(const std::string& path, const json& node, T* out) {
    if (!node.is_number_integer()) return refuse_type(path, node, "an integer");
    if (node.is_number_unsigned() && std::in_range<T>(node.get<std::uint64_t>())) {
      *out = static_cast<T>(node.get<std::uint64_t>());
      return true;
    }
    if (node.type() == json::value_t::number_integer &&
        std::in_range<T>(node.get<std::int64_t>())) {
      *out = static_cast<T>(node.get<std::int64_t>());
      return true;
    }
    return refuse(path, fmt::format("{} is out of range", described(node)),
                  fmt::format("write an integer from {} to {}", std::numeric_limits<T>::min(),
                              std::numeric_limits<T>::max()));
  }

  bool read(const std::string& path, const json& node, bool* out) {
    if (!node.is_boolean()) return refuse_type(path, node, "true or false");
    *out = node.get<bool>();
    return true;
  }

  bool read(const std::string& path, const json& node, std::string* out) {
    if (!node.is_string()) return refuse_type(path, node, "text");
    *out = node.get_ref<const std::string&>();
    return true;
  }

  bool read(const std::string& path, const json& node, ReshardAfterForward* out) {
    if (node.is_null()) {
      *out = std::monostate{};
      return true;
    }
    if (node.is_boolean()) {
      *out = node.get<bool>();
      return true;
    }
    if (!node.is_number()) return refuse_type(path, node, "null, true, false or an integer");
    int shard_size = 0;
    if (!read(path, node, &shard_size)) return false;
    *out = shard_size;
    return true;
  }

  std::string_view file_name_;
  Error error_;
};

}  // namespace

Result<Case> parse_case(std::string_view text, std::string_view file_name) {
  Result<json> tree = detail::parse_json(text, file_name);
  if (!tree) return tree.error();
  json root = std::move(tree).value();
  TreeReader reader(file_name);
  Case c;
  if (!reader.read_document(root, &c)) return reader.take_error();
  return c;
}

}  // namespace shardfuzz
