#include "fuzz/explorer.h"

#include <utility>

#include "harness/worker/clock.h"

namespace shardfuzz {

Explorer::Explorer(const RunnerOptions& native, CaseSeries series, std::int64_t cases_per_range,
                   std::int64_t first_range)
    : options_(native),
      series_(std::move(series)),
      cases_per_range_(cases_per_range),
      next_range_(first_range),
      clock_(std::make_unique<SteadyClock>()) {
  options_.target = Target::kNative;
  options_.worker_count = 1;
  pool_ = std::make_unique<WorkerPool>(pool_options(options_), *clock_);
}

Explorer::~Explorer() = default;

Status Explorer::start() {
  const ExploreRequest request{
      .series = series_, .first = next_range_ * cases_per_range_, .count = cases_per_range_};
  return pool_->submit(static_cast<std::uint64_t>(next_range_++),
                       "explore\n" + request_text(request));
}

Result<ExploreAnswer> Explorer::take(const std::function<bool()>& stop) {
  while (pool_->pending_count() > 0 && !(stop && stop())) {
    const auto completed = pool_->poll(std::chrono::milliseconds(100));
    if (!completed) return completed.error();
    if (completed->empty()) continue;
    if (const auto* answer = std::get_if<Answer>(&completed->front().outcome)) {
      lost_in_a_row_ = 0;
      rss_bytes_ = answer->rss_bytes;
      return parse_explore_answer(answer->payload);
    }
    const Lost& lost = std::get<Lost>(completed->front().outcome);
    ++lost_ranges_;
    if (++lost_in_a_row_ < kLostRangesMax) return ExploreAnswer{.was_lost = true};
    return Error{.what = lost.text() + "\n" + lost.output_tail,
                 .where = options_.worker,
                 .what_to_do = "report this as a bug; --engine property does without the twin"};
  }
  return ExploreAnswer{};
}

void Explorer::shutdown() { pool_->shutdown(); }

}  // namespace shardfuzz
