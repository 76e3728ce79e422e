#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "fuzz/explore.h"
#include "harness/case/case_json.h"

namespace shardfuzz {

using Json = nlohmann::json;

void to_json(Json& json, const Case& c) { json = canonical_text(c); }
void from_json(const Json& json, Case& c) {
  const auto parsed = parse_case(json.get<std::string>(), "explore answer");
  if (!parsed) throw std::runtime_error(parsed.error().text());
  c = *parsed;
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CaseSeries, seed, packs, world_max, documented_use_only,
                                   steered_one_in, command)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExploreRequest, series, first, count)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExploreAnswer::Failure, number, signature, the_case)
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

void note(const Case& c, const Verdict& verdict, std::int64_t number, ExploreAnswer* answer) {
  ++answer->cases;
  answer->ranks += c.mesh.world_size();
  switch (verdict.kind) {
    case VerdictKind::kPass: ++answer->passed; return;
    case VerdictKind::kRefused: ++answer->refused; return;
    default: ++answer->failed;
  }
  const auto has_it = [&](const ExploreAnswer::Failure& failure) {
    return failure.signature == verdict.signature;
  };
  auto& failures = answer->failures;
  if (std::any_of(failures.begin(), failures.end(), has_it)) return;
  failures.push_back({.number = number, .signature = verdict.signature, .the_case = c});
}

std::string request_text(const ExploreRequest& request) { return Json(request).dump(); }
std::string answer_text(const ExploreAnswer& answer) { return Json(answer).dump(); }

Result<ExploreRequest> parse_explore_request(std::string_view text) {
  return parsed<ExploreRequest>(text, "explore request");
}

Result<ExploreAnswer> parse_explore_answer(std::string_view text) {
  return parsed<ExploreAnswer>(text, "explore answer");
}

}  // namespace shardfuzz
