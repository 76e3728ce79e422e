// libFuzzer target case_reader: any bytes as a case file.
//
// Holds: what the reader accepts has one spelling that reads back to the same case, whichever
// writer wrote it; what it (or validate) refuses it refuses with what, where and a way out; nothing
// crashes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "harness/base/check.h"
#include "harness/case/case_json.h"
#include "harness/case/validate.h"

namespace shardfuzz {
namespace {

void check_refusal(const Error& error) {
  SHARDFUZZ_CHECK(!error.what.empty() && !error.where.empty() && !error.what_to_do.empty(),
                  "a refusal that does not help: what '{}', where '{}', what to do '{}'",
                  error.what, error.where, error.what_to_do);
}

void check_reads_back(const Case& c, const std::string& text) {
  const Result<Case> again = parse_case(text, "written");
  SHARDFUZZ_CHECK(again.ok(), "a written case is refused: {}\n{}", again.error().text(), text);
  SHARDFUZZ_CHECK(*again == c, "a written case reads back as another one:\n{}", text);
  SHARDFUZZ_CHECK(canonical_text(*again) == canonical_text(c), "two spellings of:\n{}", text);
}

void run(std::string_view text) {
  const Result<Case> c = parse_case(text, "input");
  if (!c) return check_refusal(c.error());
  check_reads_back(*c, canonical_text(*c));
  check_reads_back(*c, compact_text(*c));
  check_reads_back(*c, full_text(*c));
  case_hash(*c);
  if (const Status valid = validate(*c); !valid) check_refusal(valid.error());
}

}  // namespace
}  // namespace shardfuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  shardfuzz::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
