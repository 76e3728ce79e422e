#include "harness/minimize/minimize.h"

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "harness/case/case_json.h"
#include "harness/case/validate.h"
#include "harness/minimize/case_size.h"
#include "harness/minimize/passes.h"

namespace shardfuzz {
namespace {

class Minimizer {
 public:
  Minimizer(const std::string& signature, const Evaluate& evaluate, const MinimizeLimits& limits)
      : signature_(signature), evaluate_(evaluate), limits_(limits) {}

  MinimizeResult run(const Case& start) {
    result_.smallest = start;
    if (!validate(start).ok()) {
      result_.end = MinimizeEnd::kNotReproduced;
      return std::move(result_);
    }
    const Verdict* first = verdict_of(start);
    if (first == nullptr) return std::move(result_);  // no evaluation allowed at all
    result_.verdict = *first;
    kind_ = first->kind;
    const bool is_failure = kind_ == VerdictKind::kFail || kind_ == VerdictKind::kRefused;
    if (!is_failure || !fails_the_same(*first)) {
      result_.end = MinimizeEnd::kNotReproduced;
      return std::move(result_);
    }
    size_ = size_of(start);
    while (!is_stopped_ && run_all_passes()) {
    }
    return std::move(result_);
  }

 private:
  // True where any pass found something smaller. Each such round makes the case strictly smaller in
  // a well-founded order and costs evaluations, so the rounds end.
  bool run_all_passes() {
    bool any = false;
    for (const Pass& pass : all_passes()) {
      while (!is_stopped_ && take_first_smaller(pass)) any = true;
      if (is_stopped_) break;
    }
    return any;
  }

  bool take_first_smaller(const Pass& pass) {
    for (const Case& candidate : pass.propose(result_.smallest, focus())) {
      const CaseSize size = size_of(candidate);
      if (!(size < size_) || !validate(candidate).ok()) continue;
      const Verdict* verdict = verdict_of(candidate);
      if (verdict == nullptr) return false;
      if (!fails_the_same(*verdict)) continue;
      result_.verdict = *verdict;
      result_.smallest = candidate;
      size_ = size;
      if (limits_.on_smaller_case) {
        limits_.on_smaller_case({result_.smallest, pass.name, result_.evaluations});
      }
      return true;
    }
    return false;
  }

  // nullptr: a limit stops the search.
  const Verdict* verdict_of(const Case& c) {
    const std::uint64_t hash = case_hash(c);
    if (const auto known = verdicts_.find(hash); known != verdicts_.end()) return &known->second;
    if (result_.evaluations >= limits_.max_evaluations) return stop(MinimizeEnd::kEvaluations);
    if (limits_.out_of_time && limits_.out_of_time()) return stop(MinimizeEnd::kOutOfTime);
    ++result_.evaluations;
    return &verdicts_.emplace(hash, evaluate_(c)).first->second;
  }

  const Verdict* stop(MinimizeEnd end) {
    is_stopped_ = true;
    result_.end = end;
    return nullptr;
  }

  [[nodiscard]] bool fails_the_same(const Verdict& verdict) const {
    return verdict.kind == kind_ && verdict.signature == signature_;
  }

  [[nodiscard]] Focus focus() const {
    if (result_.verdict.findings.empty()) return {};
    return {result_.verdict.findings.front().group, result_.verdict.findings.front().param};
  }

  const std::string& signature_;
  const Evaluate& evaluate_;
  const MinimizeLimits& limits_;
  VerdictKind kind_ = VerdictKind::kFail;
  CaseSize size_;
  std::map<std::uint64_t, Verdict> verdicts_;
  MinimizeResult result_;
  bool is_stopped_ = false;
};

}  // namespace

MinimizeResult minimize(const Case& start, const std::string& signature, const Evaluate& evaluate,
                        const MinimizeLimits& limits) {
  return Minimizer(signature, evaluate, limits).run(start);
}

}  // namespace shardfuzz
