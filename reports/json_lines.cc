#include "reports/json_lines.h"

#include <nlohmann/json.hpp>

namespace shardfuzz {

using nlohmann::ordered_json;

std::string verdict_json(const Verdict& verdict) {
  ordered_json findings = ordered_json::array();
  for (const Finding& finding : verdict.findings) {
    findings.push_back({{"property", finding.property},
                        {"rank", finding.rank},
                        {"group", finding.group},
                        {"param", finding.param},
                        {"phase", finding.phase},
                        {"step", finding.step},
                        {"sentence", finding.sentence},
                        {"event", finding.event}});
  }
  const ordered_json json{{"verdict", std::string(name_of(verdict.kind))},
                          {"signature", verdict.signature},
                          {"sentence", verdict.sentence},
                          {"trace_digest", verdict.trace_digest},
                          {"findings", findings}};
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string json_string(const std::string& text) {
  return ordered_json(text).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace shardfuzz
