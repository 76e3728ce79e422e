#include "fuzz/explore.h"

#include <utility>

#include "harness/native/supported.h"
#include "harness/oracle/judge.h"

namespace shardfuzz {

ExploreAnswer explore(native::NativeTarget& target, const ExploreRequest& request) {
  ExploreAnswer answer;
  std::set<std::string> seen;
  for (std::int64_t number = request.first; number < request.first + request.count; ++number) {
    Case c = numbered_case(request.series, number);
    if (const auto reason = native::unsupported(c)) {
      ++answer.skipped[*reason];
      continue;
    }
    ++answer.cases;
    answer.ranks += c.mesh.world_size();
    const Verdict verdict = judge(c, target.run(c), {.with_digest = false});
    switch (verdict.kind) {
      case VerdictKind::kPass: ++answer.passed; break;
      case VerdictKind::kRefused: ++answer.refused; break;
      default:
        ++answer.failed;
        if (seen.insert(verdict.signature).second) {
          answer.failures.push_back({.number = number, .signature = verdict.signature});
        }
    }
  }
  return answer;
}

}  // namespace shardfuzz
