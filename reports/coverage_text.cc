#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "reports/coverage_report.h"

namespace shardfuzz {
namespace {

const std::string kNoReason = "**no reason known**";

std::string share_text(const CoverageShare& share) {
  if (share.total == 0) return "-";
  return fmt::format("{} / {} ({:.1f} %)", share.reached, share.total,
                     100.0 * share.reached / share.total);
}

void add(CoverageShare* sum, const CoverageShare& share) {
  sum->reached += share.reached;
  sum->total += share.total;
}

// Within a table a bar ends the cell, also in code.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) {
    text.insert(at, "\\");
  }
  return text;
}

std::string code(const std::string& text) { return "`" + cell(text) + "`"; }

std::string lines_text(const CoverageGap& gap) {
  if (gap.first_line == gap.last_line) return std::to_string(gap.first_line);
  return fmt::format("{}-{}", gap.first_line, gap.last_line);
}

std::string head(const CoverageReport& report, const CoverageRun& run) {
  return fmt::format(
      "# Coverage of the code under test\n\n"
      "torch {}, torchao {}. {} cases on the real target: {} passed, {} failed, {} refused, {} "
      "lost "
      "the worker, {} other.\nCommand: `{}`\n\n"
      "A line is one on which a statement of a function begins; a branch is an arm of `if`, loop, "
      "`except`, `case`,\n`and`, `or`, `x if c else y`, lambda or comprehension. What runs at "
      "import "
      "alone is counted apart, and what\nfunctions do then counts for nothing.\n\n",
      report.torch, report.torchao, run.cases, run.passed, run.failed, run.refused, run.lost,
      run.other, run.command);
}

std::string file_table(const CoverageReport& report) {
  std::string text =
      "| file | functions | lines | branches | statements at import |\n"
      "| --- | --- | --- | --- | --- |\n";
  CoverageFile sum{.name = "all"};
  const auto row = [&](const std::string& name, const CoverageFile& file) {
    text += fmt::format("| {} | {} | {} | {} | {} |\n", name, share_text(file.functions),
                        share_text(file.lines), share_text(file.branches), file.import_statements);
  };
  for (const CoverageFile& file : report.files) {
    row(code(file.name), file);
    add(&sum.functions, file.functions);
    add(&sum.lines, file.lines);
    add(&sum.branches, file.branches);
    sum.import_statements += file.import_statements;
  }
  row("all", sum);
  return text;
}

// Lines by reason, most first.
std::string reason_table(const CoverageReport& report) {
  std::map<std::string, int> lines_of;
  for (const CoverageGap& gap : report.gaps) {
    lines_of[gap.reason.empty() ? kNoReason : gap.reason] += gap.line_count;
  }
  std::vector<std::pair<std::string, int>> rows(lines_of.begin(), lines_of.end());
  std::ranges::stable_sort(rows, std::greater{}, &std::pair<std::string, int>::second);
  std::string text = rows.empty() ? "" : "\n| lines | reason |\n| --- | --- |\n";
  for (const auto& [reason, count] : rows)
    text += fmt::format("| {} | {} |\n", count, cell(reason));
  return text;
}

std::string gap_table(const CoverageReport& report) {
  std::string text, file;
  for (const CoverageGap& gap : report.gaps) {
    if (gap.file != file) {
      file = gap.file;
      text += fmt::format(
          "\n### {}\n\n| lines | count | function | begins with | reason |\n"
          "| --- | --- | --- | --- | --- |\n",
          code(file));
    }
    const std::string begin = gap.is_whole_function ? "(never called)"
                              : gap.guard.empty()   ? code(gap.text)
                                                    : code(gap.guard) + " " + code(gap.text);
    text +=
        fmt::format("| {} | {} | {} | {} | {} |\n", lines_text(gap), gap.line_count,
                    code(gap.function), begin, gap.reason.empty() ? kNoReason : cell(gap.reason));
  }
  return text.empty() ? "\nNone.\n" : text;
}

std::string arm_list(const CoverageReport& report) {
  std::string text, file, function;
  for (const CoverageArm& arm : report.arms) {
    if (arm.file != file) {
      file = arm.file;
      function.clear();
      text += fmt::format("\n\n{}\n", code(file));
    }
    if (arm.function != function) {
      function = arm.function;
      text += fmt::format("\n- {}:", code(function));
    }
    text += fmt::format(" {} {};", arm.line, arm.arm);
  }
  return text.empty() ? "\nNone.\n" : text + "\n";
}

nlohmann::ordered_json share_json(const CoverageShare& share) {
  return {{"reached", share.reached}, {"total", share.total}};
}

nlohmann::ordered_json run_json(const CoverageReport& report, const CoverageRun& run) {
  return {{"torch", report.torch},  {"torchao", report.torchao}, {"command", run.command},
          {"cases", run.cases},     {"passed", run.passed},      {"failed", run.failed},
          {"refused", run.refused}, {"lost", run.lost},          {"other", run.other}};
}

}  // namespace

std::string coverage_markdown(const CoverageReport& report, const CoverageRun& run) {
  std::size_t unexplained = 0;
  for (const CoverageGap& gap : report.gaps) unexplained += gap.reason.empty() ? 1 : 0;
  std::string text = head(report, run) + file_table(report);
  text += fmt::format("\n## Never reached\n\n{} stretches of lines, {} without a known reason.\n",
                      report.gaps.size(), unexplained);
  if (report.reasons_are_of_other_versions) {
    text += "The reasons were written for other versions of torch or torchao.\n";
  }
  text += reason_table(report) + gap_table(report);
  text += fmt::format(
      "\n## Branches that no line shows\n\n{} arms of lines that were reached were never "
      "taken.",
      report.arms.size());
  return text + arm_list(report);
}

std::string coverage_json(const CoverageReport& report, const CoverageRun& run) {
  nlohmann::ordered_json json = run_json(report, run);
  json["files"] = nlohmann::ordered_json::array();
  for (const CoverageFile& file : report.files) {
    json["files"].push_back({{"file", file.name},
                             {"functions", share_json(file.functions)},
                             {"lines", share_json(file.lines)},
                             {"branches", share_json(file.branches)},
                             {"import_statements", file.import_statements}});
  }
  json["gaps"] = nlohmann::ordered_json::array();
  for (const CoverageGap& gap : report.gaps) {
    json["gaps"].push_back({{"file", gap.file},
                            {"function", gap.function},
                            {"first_line", gap.first_line},
                            {"last_line", gap.last_line},
                            {"lines", gap.line_count},
                            {"whole_function", gap.is_whole_function},
                            {"guard", gap.guard},
                            {"text", gap.text},
                            {"reason", gap.reason}});
  }
  json["arms"] = nlohmann::ordered_json::array();
  for (const CoverageArm& arm : report.arms) {
    json["arms"].push_back(
        {{"file", arm.file}, {"function", arm.function}, {"line", arm.line}, {"arm", arm.arm}});
  }
  return json.dump(1) + "\n";
}

}  // namespace shardfuzz
