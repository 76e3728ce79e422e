// libFuzzer target native_case: generated cases on the C++ twin, judged by the oracle
// (case_fuzzer.h). Its code coverage is that of the twin.
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
    Case probe;
    probe.groups = {
        {.name = "root",
         .params = {
             {.name = "w", .shape = {1}, .pack = hook.pack->name, .hook = hook.hook->name}}}};
    return !native::unsupported(probe);
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
