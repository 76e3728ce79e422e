#include "reports/coverage_report.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace shardfuzz {
namespace {

class Reporter {
 public:
  Reporter(const CoverageTable& table, std::span<const std::uint8_t> reached)
      : table_(table), reached_(reached) {
    for (const CoverageTable::File& file : table.files) {
      report_.files.push_back({.name = file.name, .import_statements = file.import_statements});
    }
    report_.torch = table.torch;
    report_.torchao = table.torchao;
  }

  CoverageReport run(CoverageReasons* reasons) {
    find_lines();
    count_functions();
    find_gaps();
    find_arms();
    if (reasons != nullptr) explain(reasons);
    return std::move(report_);
  }

 private:
  using Place = std::pair<int, int>;             // file, line
  using Function = std::pair<int, std::string>;  // file, name

  [[nodiscard]] bool is_reached(std::size_t i) const {
    return i < reached_.size() && reached_[i] != 0;
  }
  [[nodiscard]] std::size_t size() const { return table_.counters.size(); }
  [[nodiscard]] const CoverageCounter& at(std::size_t i) const { return table_.counters[i]; }
  CoverageFile& file_of(std::size_t i) {
    return report_.files[static_cast<std::size_t>(at(i).file)];
  }

  // Of several statements on a line one is enough.
  void find_lines() {
    for (std::size_t i = 0; i < size(); ++i) {
      if (at(i).is_branch) {
        ++file_of(i).branches.total;
        file_of(i).branches.reached += is_reached(i) ? 1 : 0;
        continue;
      }
      lines_[{at(i).file, at(i).line}] |= is_reached(i);
      called_[{at(i).file, at(i).function}] |= is_reached(i);
    }
    for (const auto& [place, was_reached] : lines_) {
      CoverageFile& file = report_.files[static_cast<std::size_t>(place.first)];
      ++file.lines.total;
      file.lines.reached += was_reached ? 1 : 0;
    }
  }

  void count_functions() {
    for (const auto& [function, was_called] : called_) {
      CoverageFile& file = report_.files[static_cast<std::size_t>(function.first)];
      ++file.functions.total;
      file.functions.reached += was_called ? 1 : 0;
    }
  }

  // The outermost function around it (or itself) that was never called; empty: all were.
  [[nodiscard]] std::string never_called(const CoverageCounter& counter) const {
    static const std::string kWithin = ".<locals>.";
    for (std::size_t end = 0; end != std::string::npos;) {
      end = counter.function.find(kWithin, end == 0 ? 0 : end + kWithin.size());
      const std::string name = counter.function.substr(0, end);
      const auto found = called_.find({counter.file, name});
      if (found != called_.end() && !found->second) return name;
    }
    return {};
  }

  // The statement with which the gap begins that this one belongs to.
  [[nodiscard]] std::size_t root_of(std::size_t i) const {
    while (at(i).before >= 0 && !is_reached(static_cast<std::size_t>(at(i).before))) {
      i = static_cast<std::size_t>(at(i).before);
    }
    return i;
  }

  void find_gaps() {
    std::map<std::pair<Function, std::size_t>, CoverageGap> gaps;
    std::map<Function, std::size_t> first_of;  // of functions that were never called
    std::set<Place> seen;
    for (std::size_t i = 0; i < size(); ++i) {
      const CoverageCounter& counter = at(i);
      if (counter.is_branch || is_reached(i) || lines_[{counter.file, counter.line}]) continue;
      const std::string whole = never_called(counter);
      const Function function{counter.file, whole.empty() ? counter.function : whole};
      const std::size_t root =
          whole.empty() ? root_of(i) : first_of.try_emplace(function, i).first->second;
      CoverageGap& gap = gaps[{function, root}];
      if (gap.line_count == 0) {
        gap = {.file = file_of(i).name,
               .function = function.second,
               .first_line = counter.line,
               .last_line = counter.last_line,
               .is_whole_function = !whole.empty(),
               .text = at(root).text,
               .guard = at(root).guard};
      }
      gap.last_line = std::max(gap.last_line, counter.last_line);
      gap.line_count += seen.insert({counter.file, counter.line}).second ? 1 : 0;
    }
    for (auto& [key, gap] : gaps) report_.gaps.push_back(std::move(gap));
    std::ranges::sort(report_.gaps, [](const CoverageGap& a, const CoverageGap& b) {
      return std::tie(a.file, a.first_line, a.last_line) <
             std::tie(b.file, b.first_line, b.last_line);
    });
  }

  void find_arms() {
    for (std::size_t i = 0; i < size(); ++i) {
      const CoverageCounter& counter = at(i);
      const bool shows_as_gap = !counter.guard.empty() || counter.before < 0 ||
                                !is_reached(static_cast<std::size_t>(counter.before));
      if (!counter.is_branch || is_reached(i) || shows_as_gap) continue;
      report_.arms.push_back({.file = file_of(i).name,
                              .function = counter.function,
                              .line = counter.line,
                              .arm = counter.text});
    }
    std::ranges::stable_sort(report_.arms, [](const CoverageArm& a, const CoverageArm& b) {
      return std::tie(a.file, a.line) < std::tie(b.file, b.line);
    });
  }

  void explain(CoverageReasons* reasons) {
    for (CoverageGap& gap : report_.gaps) {
      gap.reason = reasons->find(gap.file, gap.function, gap.text, gap.guard);
    }
    for (const CoverageReason& reason : reasons->reasons) {
      if (reason.uses == 0) report_.unused.push_back(reason);
    }
    report_.reasons_are_of_other_versions = !report_.torch.starts_with(reasons->torch) ||
                                            !report_.torchao.starts_with(reasons->torchao);
  }

  const CoverageTable& table_;
  std::span<const std::uint8_t> reached_;
  CoverageReport report_;
  std::map<Place, bool> lines_;
  std::map<Function, bool> called_;
};

}  // namespace

CoverageReport report_coverage(const CoverageTable& table, std::span<const std::uint8_t> reached,
                               CoverageReasons* reasons) {
  return Reporter(table, reached).run(reasons);
}

}  // namespace shardfuzz
