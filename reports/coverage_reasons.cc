#include "reports/coverage_reasons.h"

#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace shardfuzz {
namespace {

using nlohmann::json;

constexpr std::string_view kSchema = "shardfuzz.coverage_reasons/1";

Error reasons_error(const std::string& what, const std::string& where) {
  return {.what = what,
          .where = where,
          .what_to_do = "reports/coverage_reasons.h says what the file holds"};
}

// Empty: nothing is wrong.
std::string read_reason(const json& entry, CoverageReason* reason) {
  for (const auto& [name, value] : entry.items()) {
    if (name == "file") {
      reason->file = value;
    } else if (name == "function") {
      reason->function = value;
    } else if (name == "at") {
      reason->at = value;
    } else if (name == "reason") {
      reason->reason = value;
    } else {
      return "unknown field '" + name + "'";
    }
  }
  if (reason->file.empty()) return "no field 'file'";
  if (reason->function.empty()) return "no field 'function'";
  return reason->reason.empty() ? "no field 'reason'" : "";
}

}  // namespace

bool matches(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (text.substr(0, star) != pattern.substr(0, star)) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t begin = star; begin <= text.size(); ++begin) {
    if (matches(rest, text.substr(begin))) return true;
  }
  return false;
}

std::string CoverageReasons::find(std::string_view file, std::string_view function,
                                  std::string_view text, std::string_view guard) {
  for (CoverageReason& reason : reasons) {
    if (!matches(reason.file, file) || !matches(reason.function, function)) continue;
    if (!matches(reason.at, text) && !matches(reason.at, guard)) continue;
    ++reason.uses;
    return reason.reason;
  }
  return {};
}

Result<CoverageReasons> parse_coverage_reasons(const std::string& text, const std::string& where) {
  CoverageReasons reasons;
  try {
    const json file = json::parse(text);
    if (file.at("schema") != kSchema) return reasons_error("not " + std::string(kSchema), where);
    reasons.torch = file.at("torch");
    reasons.torchao = file.at("torchao");
    for (const json& entry : file.at("reasons")) {
      CoverageReason reason;
      if (const std::string wrong = read_reason(entry, &reason); !wrong.empty()) {
        return reasons_error(wrong, where + ": " + entry.dump());
      }
      reasons.reasons.push_back(std::move(reason));
    }
  } catch (const std::exception& problem) {
    return reasons_error(problem.what(), where);
  }
  return reasons;
}

Result<CoverageReasons> load_coverage_reasons(const std::string& path) {
  const std::ifstream file(path);
  if (!file) return reasons_error("cannot be read", path);
  std::ostringstream text;
  text << file.rdbuf();
  return parse_coverage_reasons(text.str(), path);
}

}  // namespace shardfuzz
