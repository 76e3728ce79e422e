// Writes a Case as JSON along the tables of detail/case_fields.h, and names it by a hash.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "harness/base/hash.h"
#include "harness/case/case_json.h"
#include "harness/case/case_names.h"
#include "harness/case/detail/case_fields.h"

namespace shardfuzz {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kLineBytesMax = 100;

template <typename T>
const T& default_of() {
  static const T value{};
  return value;
}

enum class Defaults { kLeftOut, kWritten };

class TreeWriter {
 public:
  explicit TreeWriter(Defaults defaults) : defaults_(defaults) {}

  ordered_json tree_of_case(const Case& c) const {
    ordered_json tree = ordered_json::object();
    tree[std::string(detail::kSchemaKey)] = detail::kSchemaName;
    add_fields(c, &tree);
    const std::vector<Operation> default_operations = operations_of(Case{});
    if (defaults_ == Defaults::kWritten) {
      tree["operations"] = tree_of(operations_of(c));
    } else if (c.operations == default_operations) {
      tree.erase("operations");
    }
    return tree;
  }

 private:
  template <detail::HasFields T>
  void add_fields(const T& value, ordered_json* tree) const {
    detail::for_each_field<T>([&](const auto& field) {
      const auto& member = value.*field.member;
      const bool is_default = member == default_of<T>().*field.member;
      if (is_default && defaults_ == Defaults::kLeftOut &&
          field.presence == detail::Presence::kOptional) {
        return;
      }
      (*tree)[std::string(field.name)] = tree_of(member);
    });
  }

  template <detail::HasFields T>
  ordered_json tree_of(const T& value) const {
    ordered_json tree = ordered_json::object();
    add_fields(value, &tree);
    return tree;
  }

  // A bare word where the operation has no arguments. A flag is written wherever the operation
  // takes one, false too: {"op": "gradient_sync"} alone would not tell a reader what is set.
  ordered_json tree_of(const Operation& operation) const {
    ordered_json tree = ordered_json::object();
    add_fields(operation, &tree);
    if (arguments_of(operation.kind).flag) tree["flag"] = operation.flag;
    if (tree.size() == 1) return tree_of(operation.kind);
    return tree;
  }

  template <typename T>
  requires std::is_arithmetic_v<T> ordered_json tree_of(const T& value)
  const { return value; }

  ordered_json tree_of(const std::string& value) const { return value; }

  template <typename T>
  requires std::is_enum_v<T> ordered_json tree_of(const T& value)
  const { return std::string(name_of(value)); }

  template <typename T>
  ordered_json tree_of(const std::optional<T>& value) const {
    return value ? tree_of(*value) : ordered_json(nullptr);
  }

  template <typename T>
  ordered_json tree_of(const std::vector<T>& values) const {
    ordered_json tree = ordered_json::array();
    for (const T& value : values) tree.emplace_back(tree_of(value));
    return tree;
  }

  ordered_json tree_of(const ReshardAfterForward& value) const {
    if (const bool* flag = std::get_if<bool>(&value)) return *flag;
    if (const int* shard_size = std::get_if<int>(&value)) return *shard_size;
    return nullptr;
  }

  Defaults defaults_;
};

ordered_json short_tree(const Case& c) { return TreeWriter(Defaults::kLeftOut).tree_of_case(c); }

// Never throws: bytes that are no UTF-8 become U+FFFD.
std::string one_line(const ordered_json& tree) {
  return tree.dump(-1, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace);
}

// The same with a space after each comma and colon, for a person to read.
void append_spaced(const ordered_json& tree, std::string* out) {
  if (!tree.is_structured()) {
    *out += one_line(tree);
    return;
  }
  *out += tree.is_array() ? '[' : '{';
  const char* separator = "";
  for (const auto& [key, value] : tree.items()) {
    *out += separator;
    separator = ", ";
    if (tree.is_object()) *out += one_line(key) + ": ";
    append_spaced(value, out);
  }
  *out += tree.is_array() ? ']' : '}';
}

// Scalars, arrays of those (to any depth) and operations read best on one line.
bool reads_as_one_line(const ordered_json& tree) {
  if (tree.is_object()) return tree.empty() || tree.contains("op");
  if (!tree.is_array()) return true;
  for (const auto& item : tree) {
    if (item.is_object() || !reads_as_one_line(item)) return false;
  }
  return true;
}

void append_pretty(const ordered_json& tree, std::size_t indent, std::size_t column,
                   std::string* out) {
  if (reads_as_one_line(tree)) {
    std::string line;
    append_spaced(tree, &line);
    // A long array is broken up; a long text cannot be. One byte is kept for a comma.
    if (!tree.is_array() || column + line.size() + 1 <= kLineBytesMax) {
      *out += line;
      return;
    }
  }
  *out += tree.is_array() ? '[' : '{';
  const char* separator = "\n";
  for (const auto& [key, value] : tree.items()) {
    const std::string label = tree.is_object() ? one_line(key) + ": " : "";
    *out += separator + std::string(indent + 2, ' ') + label;
    separator = ",\n";
    append_pretty(value, indent + 2, indent + 2 + label.size(), out);
  }
  *out += '\n' + std::string(indent, ' ') + (tree.is_array() ? ']' : '}');
}

}  // namespace

std::string canonical_text(const Case& c) {
  std::string text;
  append_pretty(short_tree(c), /*indent=*/0, /*column=*/0, &text);
  return text + '\n';
}

std::string compact_text(const Case& c) { return one_line(short_tree(c)); }

std::string full_text(const Case& c) {
  return one_line(TreeWriter(Defaults::kWritten).tree_of_case(c));
}

std::uint64_t case_hash(const Case& c) {
  Case experiment = c;
  experiment.name.clear();
  experiment.origin = {};
  experiment.expect = {};
  experiment.predicate.clear();
  experiment.history.clear();
  experiment.environment.torch.clear();
  experiment.environment.torchao.clear();
  experiment.environment.nccl.clear();
  return hash_bytes(compact_text(experiment));
}

}  // namespace shardfuzz
