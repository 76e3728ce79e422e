// explore: generated cases on the native target, judged in this process, thousands a second.
//
// Runs inside shardfuzz_native_worker; the engine sends it ranges of case numbers and gets the
// numbers of those that failed, which it generates again (numbered_case.h) and confirms on the real
// target. Guarantees: the answer depends on the request alone.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fuzz/numbered_case.h"
#include "harness/base/result.h"
#include "harness/native/native_target.h"

namespace shardfuzz {

struct ExploreRequest {
  CaseSeries series;
  std::int64_t first = 0, count = 0;
};

struct ExploreAnswer {
  struct Failure {
    std::int64_t number = 0;
    std::string signature;
  };
  std::int64_t cases = 0;  // that were run
  std::int64_t ranks = 0;  // of these, together
  std::int64_t passed = 0, failed = 0, refused = 0;
  std::map<std::string, std::int64_t> skipped;
  std::vector<Failure> failures;  // the first case of each signature in the range
};

ExploreAnswer explore(native::NativeTarget& target, const ExploreRequest& request);

// On the wire: JSON. Parsing gives an Error where the text is no request (answer).
std::string request_text(const ExploreRequest& request);
std::string answer_text(const ExploreAnswer& answer);
Result<ExploreRequest> parse_explore_request(std::string_view text);
Result<ExploreAnswer> parse_explore_answer(std::string_view text);

}  // namespace shardfuzz
