#include <nlohmann/json.hpp>

#include "fuzz/explore.h"

namespace shardfuzz {

using Json = nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CaseSeries, seed, packs, world_max, documented_use_only, command)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExploreRequest, series, first, count)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExploreAnswer::Failure, number, signature)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExploreAnswer, cases, ranks, passed, failed, refused, skipped,
                                   failures)

namespace {

template <typename T>
Result<T> parsed(std::string_view text, const char* where) {
  try {
    return Json::parse(text).get<T>();
  } catch (const std::exception& problem) {
    return Error{.what = problem.what(), .where = where, .what_to_do = "report this as a bug"};
  }
}

}  // namespace

std::string request_text(const ExploreRequest& request) { return Json(request).dump(); }
std::string answer_text(const ExploreAnswer& answer) { return Json(answer).dump(); }

Result<ExploreRequest> parse_explore_request(std::string_view text) {
  return parsed<ExploreRequest>(text, "explore request");
}

Result<ExploreAnswer> parse_explore_answer(std::string_view text) {
  return parsed<ExploreAnswer>(text, "explore answer");
}

}  // namespace shardfuzz
