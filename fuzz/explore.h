// explore: generated cases on the native target, judged in this process, thousands a second.
//
// Runs inside shardfuzz_native_worker; the engine sends it ranges of case numbers and gets the
// first case of each signature, which it confirms on the real target. The libFuzzer target
// native_case answers the same requests with its own inputs (fuzz/targets/explore_worker.h).
// Guarantees: the answer depends on the request alone (steered cases depend on those before them:
// they are generated again where a request does not follow the one before).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/case_source.h"
#include "fuzz/numbered_case.h"
#include "harness/base/result.h"
#include "harness/native/native_target.h"
#include "harness/oracle/verdict.h"

namespace shardfuzz {

struct ExploreRequest {
  CaseSeries series;
  std::int64_t first = 0, count = 0;
};

struct ExploreAnswer {
  struct Failure {
    std::int64_t number = 0;
    std::string signature;
    Case the_case;
  };
  std::int64_t cases = 0;  // that were run
  std::int64_t ranks = 0;  // of these, together
  std::int64_t passed = 0, failed = 0, refused = 0;
  std::map<std::string, std::int64_t> skipped;
  std::vector<Failure> failures;  // the first case of each signature in the range
  bool was_lost = false;          // the process died: nothing else is filled in (not on the wire)
};

// Adds a case that was run to the answer.
void note(const Case& c, const Verdict& verdict, std::int64_t number, ExploreAnswer* answer);

class ExploreSession {
 public:
  explicit ExploreSession(native::NativeTarget* target) : target_(target) {}
  ExploreAnswer run(const ExploreRequest& request);

 private:
  void prepare(const ExploreRequest& request);

  native::NativeTarget* target_;
  CaseSeries series_;
  std::unique_ptr<CaseSource> source_;
};

// On the wire: JSON. Parsing gives an Error where the text is no request (answer).
std::string request_text(const ExploreRequest& request);
std::string answer_text(const ExploreAnswer& answer);
Result<ExploreRequest> parse_explore_request(std::string_view text);
Result<ExploreAnswer> parse_explore_answer(std::string_view text);

}  // namespace shardfuzz
