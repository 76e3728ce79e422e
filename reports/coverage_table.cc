#include "reports/coverage_table.h"

#include <exception>
#include <nlohmann/json.hpp>

namespace shardfuzz {
namespace {

using nlohmann::json;

CoverageCounter counter_from(const json& row) {
  return {.file = row.at(0),
          .is_branch = row.at(1) == "branch",
          .line = row.at(2),
          .last_line = row.at(3),
          .function = row.at(4),
          .text = row.at(5),
          .before = row.at(6),
          .guard = row.at(7)};
}

Error table_error(const std::string& what) {
  return {.what = what,
          .where = "the worker's hello",
          .what_to_do = "build worker and program together: tools/setup"};
}

}  // namespace

Result<CoverageTable> parse_coverage_table(const std::string& hello) {
  CoverageTable table;
  try {
    const json message = json::parse(hello);
    table.torch = message.at("torch");
    table.torchao = message.at("torchao");
    for (const json& file : message.at("coverage").at("files")) {
      table.files.push_back({.name = file.at(0), .import_statements = file.at(1)});
    }
    for (const json& row : message.at("coverage").at("counters")) {
      table.counters.push_back(counter_from(row));
    }
  } catch (const std::exception& problem) {
    return table_error(problem.what());
  }
  const int count = static_cast<int>(table.counters.size());
  for (int i = 0; i < count; ++i) {
    const CoverageCounter& counter = table.counters[static_cast<std::size_t>(i)];
    // A statement comes before what follows it and what is in it, so chains of `before` end.
    if (counter.file < 0 || counter.file >= static_cast<int>(table.files.size()) ||
        counter.before < -1 || counter.before >= i) {
      return table_error("counter " + std::to_string(i) + " refers to what is not there");
    }
  }
  return table;
}

}  // namespace shardfuzz
