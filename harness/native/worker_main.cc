// shardfuzz_native_worker: runs cases on the native target, one after the other, for the engine.
//
// Talks as shardfuzz_worker does (harness/real/worker_main.cc): frames on descriptors 3 and 4, a
// case as JSON in, the trace as JSON out. Not meant to be typed by people.
#include <cstdio>
#include <cstring>
#include <string>

#include "harness/case/case_json.h"
#include "harness/native/native_target.h"
#include "harness/worker/frame.h"

namespace shardfuzz {
namespace {

int serve(native::NativeTarget& target) {
  if (!write_frame(kAnswerFd, FrameKind::kHello, R"({"target":"native"})")) return 0;
  Frame frame;
  while (read_frame(kRequestFd, &frame) == ReadStatus::kFrame) {
    if (frame.kind == FrameKind::kQuit) break;
    const Result<Case> parsed = parse_case(frame.payload, "request");
    if (!parsed) {
      std::fprintf(stderr, "%s\n", parsed.error().text().c_str());
      return 2;
    }
    if (!write_frame(kAnswerFd, FrameKind::kAnswer, trace_text(target.run(*parsed)))) break;
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
