#include "fuzz/targets/findings.h"

#include <cstdio>
#include <filesystem>
#include <utility>

#include "fuzz/engine.h"
#include "fuzz/writable.h"
#include "harness/base/hash.h"
#include "harness/case/case_json.h"

namespace shardfuzz {

Findings::Findings(std::string folder, FindingsOrigin origin)
    : folder_(std::move(folder)), origin_(std::move(origin)) {}

bool Findings::note(const Case& c, const Verdict& verdict) {
  passed_ += verdict.kind == VerdictKind::kPass ? 1 : 0;
  refused_ += verdict.kind == VerdictKind::kRefused ? 1 : 0;
  if (verdict.kind != VerdictKind::kFail) return false;
  ++failed_;
  if (!seen_.insert(verdict.signature).second) return false;
  const std::chrono::duration<double> since_start = std::chrono::steady_clock::now() - start_;
  found_.push_back({verdict.signature, since_start.count(), executions_});
  std::fprintf(stderr, "FOUND  %s  (execution %lld, after %.1f s)\n  %s\n",
               verdict.signature.c_str(), static_cast<long long>(executions_), since_start.count(),
               verdict.sentence.c_str());
  write(c, verdict);
  return true;
}

void Findings::write(Case c, const Verdict& verdict) const {
  const std::string file =
      (std::filesystem::path(folder_) / file_name_of(verdict.signature)).string();
  std::error_code error;
  if (std::filesystem::exists(file, error)) return;
  c.name = "libfuzzer-" + hex64(case_hash(c)).substr(0, 8);
  c.origin = {.kind = "fuzz", .source = "tools/libfuzzer " + origin_.target, .note = origin_.note};
  c.expect = {.verdict = "fail", .signature = verdict.signature, .sentence = verdict.sentence};
  Status saved = make_writable_folder(folder_);
  if (saved) saved = save_case(c, file);
  if (saved) {
    std::fprintf(stderr, "  replay: tools/replay %s\n", file.c_str());
  } else {
    std::fprintf(stderr, "  not kept: %s\n", saved.error().text().c_str());
  }
}

void Findings::print_table() const {
  std::fprintf(stderr,
               "shardfuzz: %lld executions: %lld passed, %lld failed, %lld refused, %lld %s; %zu "
               "signatures\n",
               static_cast<long long>(executions_), static_cast<long long>(passed_),
               static_cast<long long>(failed_), static_cast<long long>(refused_),
               static_cast<long long>(skipped_), origin_.skipped.c_str(), found_.size());
  if (!found_.empty()) std::fprintf(stderr, "  seconds  execution  signature\n");
  for (const Found& found : found_) {
    std::fprintf(stderr, "%9.1f  %9lld  %s\n", found.seconds,
                 static_cast<long long>(found.executions), found.signature.c_str());
  }
}

}  // namespace shardfuzz
