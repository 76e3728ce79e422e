// The file of a coverage: {"schema": ..., "cases": n, "visited": {cell name: cases, ...}}.
#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "fuzz/domain.h"
#include "harness/case/detail/json_text.h"
#include "harness/case/detail/suggest.h"

namespace shardfuzz {
namespace {

using detail::in_quotes;
using nlohmann::json;

constexpr std::string_view kSchema = "shardfuzz.domain/1";
constexpr std::size_t kBytesMax = std::size_t{16} << 20;  // all triples of 6 hooks: 1.2 MB
constexpr std::string_view kKeys[] = {"schema", "cases", "visited"};

// Checks one document; every refusal names the file and the place in it.
class Reader {
 public:
  Reader(const DomainLattice& lattice, std::string_view file_name)
      : lattice_(lattice), file_name_(file_name) {}

  [[nodiscard]] Status check_text(std::string_view text) const {
    if (text.size() > kBytesMax) {
      return refused("", fmt::format("{} bytes of text, at most {}", text.size(), kBytesMax),
                     "give a coverage file");
    }
    if (text.find_first_not_of(" \t\r\n") != std::string_view::npos) return Done{};
    return refused("", "empty", "give a coverage file");
  }

  [[nodiscard]] Status check_document(const json& root) const {
    if (!root.is_object()) return refused("", "not a JSON object", "give a coverage file");
    if (!root.contains("schema") || root["schema"] != kSchema) {
      const std::string found = root.contains("schema") ? root["schema"].dump() : "";
      return refused("/schema", "unknown format " + in_quotes(found),
                     fmt::format("this version reads \"{}\"", kSchema));
    }
    for (const std::string_view key : kKeys) {
      if (!root.contains(key)) return refused(child("", key), "this field is missing", "add it");
    }
    for (const auto& [key, value] : root.items()) {
      if (std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys)) continue;
      return refused(child("", key), "unknown field " + in_quotes(key), "remove it");
    }
    if (root["visited"].is_object()) return Done{};
    return refused("/visited", "not an object", "give the number of cases for each visited cell");
  }

  [[nodiscard]] Result<std::int64_t> number(const json& node, const std::string& place,
                                            std::int64_t first, std::int64_t last) const {
    // Above what a signed number holds they are unsigned.
    const bool is_too_large =
        node.is_number_unsigned() && node.get<std::uint64_t>() > static_cast<std::uint64_t>(last);
    if (node.is_number_integer() && !is_too_large && node.get<std::int64_t>() >= first) {
      return node.get<std::int64_t>();
    }
    return refused(
        place, fmt::format("{} is no number within {}..{}", in_quotes(node.dump()), first, last),
        "check the file");
  }

  [[nodiscard]] Result<int> cell(const std::string& name) const {
    if (const int found = lattice_.find(name); found >= 0) return found;
    std::vector<std::string> names;
    for (int i = 0; i < lattice_.cell_count(); ++i) names.push_back(lattice_.name_of(i));
    const std::string_view near = detail::nearest(name, {names.begin(), names.end()});
    return refused(child("/visited", name),
                   fmt::format("unknown cell '{}'", detail::printable(name, kNameBytesMax)),
                   near.empty() ? "a cell of a pack of your own needs --pack with its file"
                                : fmt::format("did you mean '{}'?", near));
  }

  [[nodiscard]] static std::string child(std::string_view path, std::string_view key) {
    return detail::child_path(path, key);
  }

 private:
  static constexpr std::size_t kNameBytesMax = 160;

  [[nodiscard]] Error refused(std::string_view path, std::string what,
                              std::string what_to_do) const {
    return {.what = std::move(what),
            .where = detail::place(file_name_, path),
            .what_to_do = std::move(what_to_do)};
  }

  const DomainLattice& lattice_;
  std::string_view file_name_;
};

}  // namespace

std::string DomainCoverage::to_json() const {
  nlohmann::ordered_json visited = nlohmann::ordered_json::object();
  for (int cell = 0; cell < lattice_->cell_count(); ++cell) {
    if (count(cell) > 0) visited[lattice_->name_of(cell)] = count(cell);
  }
  const nlohmann::ordered_json root{
      {"schema", kSchema}, {"cases", case_count_}, {"visited", std::move(visited)}};
  return root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<DomainCoverage> DomainCoverage::from_json(const DomainLattice& lattice,
                                                 std::string_view text,
                                                 std::string_view file_name) {
  const Reader reader(lattice, file_name);
  if (Status fine = reader.check_text(text); !fine) return fine.error();
  const auto root = detail::parse_json(text, file_name, kBytesMax);
  if (!root) return root.error();
  if (Status fine = reader.check_document(*root); !fine) return fine.error();
  DomainCoverage coverage(lattice);
  const auto cases =
      reader.number((*root)["cases"], "/cases", 0, std::numeric_limits<std::int64_t>::max());
  if (!cases) return cases.error();
  coverage.case_count_ = *cases;
  for (const auto& [name, node] : (*root)["visited"].items()) {
    const auto cell = reader.cell(name);
    if (!cell) return cell.error();
    const auto count = reader.number(node, Reader::child("/visited", name), 1, *cases);
    if (!count) return count.error();
    coverage.counts_[static_cast<std::size_t>(*cell)] = *count;
  }
  return coverage;
}

}  // namespace shardfuzz
