// shardfuzz_worker: runs cases on the real target, one after the other, for the engine.
//
// Talks in frames on descriptors 3 and 4 (harness/worker/frame.h); FSDP prints to stdout, so stdout
// is not used. Request: one line of case JSON, after a line "unaided" where the run is to go
// without shortcuts (shardfuzz_real/shortcuts.py). Answer: the trace as JSON. Not meant to be typed
// by people: `shardfuzz` starts it.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "harness/case/case_json.h"
#include "harness/real/operator_watch.h"
#include "harness/real/real_target.h"
#include "harness/worker/frame.h"

namespace shardfuzz {
namespace {

void say_where() {
  char words[256];
  write_last_words(kAnswerFd, words, operator_words(words, sizeof words));
}

// The engine asks a worker that does not answer where it is, and ends it then.
extern "C" void on_question(int) { say_where(); }

extern "C" void on_fatal_signal(int signal_number) {
  say_where();
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

int serve(RealTarget& target) {
  if (!write_frame(kAnswerFd, FrameKind::kHello, target.hello())) return 0;
  Frame frame;
  while (read_frame(kRequestFd, &frame) == ReadStatus::kFrame) {
    if (frame.kind == FrameKind::kQuit) break;
    std::string_view request = frame.payload;
    const bool unaided = request.starts_with(kUnaided);
    if (unaided) request.remove_prefix(kUnaided.size());
    const Result<Case> parsed = parse_case(request, "request");
    if (!parsed) {
      std::fprintf(stderr, "%s\n", parsed.error().text().c_str());
      return 2;
    }
    if (!write_frame(kAnswerFd, FrameKind::kAnswer, target.run(*parsed, !unaided))) break;
  }
  return 0;
}

int run(int argc, char** argv) {
  RealTargetOptions options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--python") options.python = argv[i + 1];
    if (name == "--home") options.home = argv[i + 1];
    if (name == "--device") options.device = argv[i + 1];
    if (name == "--pack") options.pack_files.emplace_back(argv[i + 1]);
    if (name == "--coverage") options.coverage_file = argv[i + 1];
    if (name == "--cover") options.covered_modules.emplace_back(argv[i + 1]);
  }
  auto target = RealTarget::start(options);
  if (!target) {
    std::fprintf(stderr, "%s\n", target.error().text().c_str());
    return 2;
  }
  // Leaked on purpose: Python objects must not be destroyed after the interpreter (rank_threads.h).
  return serve(*std::move(target).value().release());
}

}  // namespace
}  // namespace shardfuzz

int main(int argc, char** argv) {
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT})
    std::signal(number, shardfuzz::on_fatal_signal);
  std::signal(SIGUSR1, shardfuzz::on_question);
  const int code = shardfuzz::run(argc, argv);
  std::fflush(nullptr);
  std::_Exit(code);  // rank threads never end, so no destructors are run (rank_threads.h)
}
