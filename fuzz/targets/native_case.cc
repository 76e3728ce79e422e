// libFuzzer target native_case: generated cases on the C++ twin, judged by the oracle
// (case_fuzzer.h). Its code coverage is that of the twin.
#include "fuzz/native_packs.h"
#include "fuzz/targets/case_fuzzer.h"
#include "harness/native/native_target.h"
#include "harness/native/supported.h"
#include "harness/oracle/judge.h"

namespace shardfuzz {
namespace {

class NativeSubject : public CaseSubject {
 public:
  [[nodiscard]] FindingsOrigin origin() const override {
    return {.target = "native_case",
            .note = "found on the native target: a replay asks the real one",
            .skipped = "not for the native target"};
  }

  [[nodiscard]] bool has_pack(const PackHook& hook) const override {
    const auto packs = native_packs({to_text(hook)});
    return packs.ok() && !packs->empty();
  }

  std::optional<Verdict> run(const Case& c) override {
    if (native::unsupported(c)) return std::nullopt;
    return judge(c, target_.run(c), {.with_digest = false});
  }

 private:
  native::NativeTarget target_;
};

}  // namespace

std::unique_ptr<CaseSubject> make_subject() { return std::make_unique<NativeSubject>(); }

}  // namespace shardfuzz
