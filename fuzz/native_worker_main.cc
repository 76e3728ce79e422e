// shardfuzz_native_worker: runs cases on the native target for the engine.
//
// Talks as shardfuzz_worker does (harness/real/worker_main.cc): frames on descriptors 3 and 4, a
// case as JSON in, the trace as JSON out. Two more requests begin with a word on a line of its own:
//   explore   an ExploreRequest; answer: an ExploreAnswer (explore.h)
//   repeat N  a case; it is run and judged N times; answer: {"seconds": ..., "verdict": ...}
// Not meant to be typed by people.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

#include "fuzz/explore.h"
#include "harness/case/case_json.h"
#include "harness/native/native_target.h"
#include "harness/oracle/judge.h"
#include "harness/worker/frame.h"

namespace shardfuzz {
namespace {

constexpr std::string_view kExplore = "explore\n", kRepeat = "repeat ";

std::string repeat(native::NativeTarget& target, const Case& c, int times) {
  using Clock = std::chrono::steady_clock;
  Verdict verdict;
  const auto start = Clock::now();
  for (int i = 0; i < times; ++i) verdict = judge(c, target.run(c), {.with_digest = false});
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return fmt::format(R"({{"seconds":{},"verdict":"{}"}})", seconds, name_of(verdict.kind));
}

Result<std::string> answer_to(native::NativeTarget& target, ExploreSession& session,
                              std::string_view request) {
  if (request.starts_with(kExplore)) {
    const auto parsed = parse_explore_request(request.substr(kExplore.size()));
    if (!parsed) return parsed.error();
    return answer_text(session.run(*parsed));
  }
  int times = 0;
  if (request.starts_with(kRepeat)) {
    const std::size_t line = request.find('\n');
    std::from_chars(request.data() + kRepeat.size(), request.data() + line, times);
    request.remove_prefix(line + 1);
  }
  const Result<Case> parsed = parse_case(request, "request");
  if (!parsed) return parsed.error();
  if (times > 0) return repeat(target, *parsed, times);
  return trace_text(target.run(*parsed));
}

int serve(native::NativeTarget& target) {
  if (!write_frame(kAnswerFd, FrameKind::kHello, R"({"target":"native"})")) return 0;
  ExploreSession session(&target);
  Frame frame;
  while (read_frame(kRequestFd, &frame) == ReadStatus::kFrame) {
    if (frame.kind == FrameKind::kQuit) break;
    const Result<std::string> answer = answer_to(target, session, frame.payload);
    if (!answer) {
      std::fprintf(stderr, "%s\n", answer.error().text().c_str());
      return 2;
    }
    if (!write_frame(kAnswerFd, FrameKind::kAnswer, *answer)) break;
  }
  return 0;
}

int run(int argc, char** argv) {
  native::Planted planted;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--planted") != 0) continue;
    const auto bug = native::bug_of(argv[i + 1]);
    if (!bug) {
      std::fprintf(stderr, "no planted bug is called '%s'\n", argv[i + 1]);
      return 2;
    }
    planted.bug = *bug;
  }
  native::NativeTarget target(planted);
  return serve(target);
}

}  // namespace
}  // namespace shardfuzz

int main(int argc, char** argv) { return shardfuzz::run(argc, argv); }
