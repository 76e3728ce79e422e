#include "fuzz/explore.h"

#include <algorithm>
#include <utility>

#include "harness/native/supported.h"
#include "harness/oracle/judge.h"

namespace shardfuzz {

void ExploreSession::prepare(const ExploreRequest& request) {
  const bool goes_on = source_ && request.series == series_ && source_->number() <= request.first;
  if (!goes_on) {
    series_ = request.series;
    source_ = std::make_unique<CaseSource>(series_);
  }
  source_->skip_to(request.first);
}

ExploreAnswer ExploreSession::run(const ExploreRequest& request) {
  prepare(request);
  ExploreAnswer answer;
  for (std::int64_t i = 0; i < request.count; ++i) {
    const std::int64_t number = source_->number();
    const Case c = source_->next();
    if (const auto reason = native::unsupported(c)) {
      ++answer.skipped[*reason];
      continue;
    }
    note(c, judge(c, target_->run(c), {.with_digest = false}), number, &answer);
  }
  return answer;
}

}  // namespace shardfuzz
