#include "fuzz/targets/explore_worker.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>
#include <utility>

#include "harness/base/exit_code.h"
#include "harness/worker/frame.h"

namespace shardfuzz {
namespace {

constexpr std::string_view kExplore = "explore\n";

// libFuzzer takes exit() for a crash of the code under test.
[[noreturn]] void leave(ExitCode code) {
  std::fflush(stderr);
  _exit(to_int(code));
}

}  // namespace

ExploreWorker ExploreWorker::begin() {
  if (!write_frame(kAnswerFd, FrameKind::kHello, R"({"target":"native"})")) leave(ExitCode::kDone);
  ExploreWorker worker;
  worker.take_request();
  return worker;
}

void ExploreWorker::take_request() {
  Frame frame;
  const ReadStatus status = read_frame(kRequestFd, &frame);
  if (status != ReadStatus::kFrame || frame.kind == FrameKind::kQuit) leave(ExitCode::kDone);
  std::string_view text = frame.payload;
  if (text.starts_with(kExplore)) text.remove_prefix(kExplore.size());
  auto request = parse_explore_request(text);
  if (!request) {
    std::fprintf(stderr, "%s\n", request.error().text().c_str());
    leave(ExitCode::kBadInput);
  }
  request_ = std::move(request).value();
  answer_ = {};
  of_range_ = 0;
}

void ExploreWorker::note(Case c, const Verdict& verdict) {
  const std::int64_t number = executions_;
  c.name = fmt::format("seed-{}-execution-{}", request_.series.seed, number);
  c.origin = {.kind = "fuzz",
              .source = fmt::format("{} (execution {})", request_.series.command, number)};
  shardfuzz::note(c, verdict, number, &answer_);
  count_execution();
}

void ExploreWorker::note_skipped(const std::string& unsupported) {
  ++answer_.skipped[unsupported];
  count_execution();
}

void ExploreWorker::count_execution() {
  ++executions_;
  if (++of_range_ < request_.count) return;
  if (!write_frame(kAnswerFd, FrameKind::kAnswer, answer_text(answer_))) leave(ExitCode::kDone);
  take_request();
}

}  // namespace shardfuzz
