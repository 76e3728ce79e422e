#include "reports/terminal.h"

#include <fmt/ranges.h>

#include "harness/case/case_names.h"

namespace shardfuzz {
namespace {

constexpr std::size_t kFindingsShown = 12;  // further ones are counted

const char* colour_of(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kPass: return "\033[32m";
    case VerdictKind::kFail: return "\033[31m";
    case VerdictKind::kRefused: return "\033[33m";
    case VerdictKind::kInvalid:
    case VerdictKind::kError: return "\033[35m";
  }
  return "";
}

std::string place_of(const Finding& finding) {
  if (finding.step < 0) return finding.phase;
  return fmt::format("step {}, {}", finding.step, finding.phase);
}

}  // namespace

std::string case_line(const Case& c) {
  std::size_t params = 0;
  for (const GroupSpec& group : c.groups) params += group.params.size();
  std::string text = fmt::format("{} rank{}, {} group{}, {} parameter{}", c.mesh.world_size(),
                                 c.mesh.world_size() == 1 ? "" : "s", c.groups.size(),
                                 c.groups.size() == 1 ? "" : "s", params, params == 1 ? "" : "s");
  for (const GroupSpec& group : c.groups) {
    for (const ParamSpec& param : group.params) {
      if (params > 3) break;
      text += fmt::format(" [{}] {} {}:{}", fmt::join(param.shape, ", "), name_of(param.dtype),
                          param.pack, param.hook);
    }
  }
  return text + fmt::format(", {} step{}", c.steps, c.steps == 1 ? "" : "s");
}

std::string verdict_text(const Verdict& verdict, Style style) {
  const bool colour = style == Style::kColour;
  std::string text = fmt::format("{}{}{}  {}\n", colour ? colour_of(verdict.kind) : "",
                                 name_of(verdict.kind), colour ? "\033[0m" : "", verdict.signature);
  if (verdict.findings.empty()) return text + "  " + verdict.sentence + "\n";
  for (std::size_t i = 0; i < verdict.findings.size() && i < kFindingsShown; ++i) {
    const Finding& finding = verdict.findings[i];
    text += fmt::format("  {} {} {} ({})\n", i == 0 ? "cause:" : "then: ", finding.property,
                        finding.sentence, place_of(finding));
  }
  if (verdict.findings.size() > kFindingsShown) {
    text += fmt::format("  and {} more\n", verdict.findings.size() - kFindingsShown);
  }
  return text;
}

}  // namespace shardfuzz
