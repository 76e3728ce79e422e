// Outcome: how a request to a worker process ended: it answered, or it was lost.
//
// Guarantees: every end a process can take is one of Lost::Reason; the texts in it are printable
// UTF-8 (Answer::payload is as the worker sent it).
// Use:  if (auto* lost = std::get_if<Lost>(&outcome)) say(lost->text());
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace shardfuzz {

struct Answer {
  std::string payload;
  double seconds = 0;          // from sending the request to the answer
  std::int64_t rss_bytes = 0;  // resident memory of the worker after it
};

struct Lost {
  enum class Reason {
    kSignal,       // died of a signal that we did not send; abort() is SIGABRT
    kExit,         // left by exit or _exit, with or without success
    kHang,         // gave no answer in time and was killed
    kMemory,       // held more than memory_bytes_max and was killed
    kProtocol,     // wrote what is no frame, or a frame out of turn, and was killed
    kStartFailed,  // was gone or had to be killed before its hello
  };
  Reason reason = Reason::kExit;
  int signal_or_code = 0;   // kSignal: the signal; kExit: the exit code; kStartFailed: see what
  std::string what;         // the same for a person, and more exact: "no answer within 2.0 s"
  std::string last_words;   // of its signal handler: the operator it was in
  std::string last_place;   // its last progress during this request
  std::string output_tail;  // the last lines of its stdout and stderr
  double seconds = 0;       // from sending the request (or its start) to its end
  std::int64_t rss_bytes_max = 0;  // the most resident memory seen
  bool request_unread = false;     // it never read the whole request: the case is not to blame
  bool cannot_start = false;       // of kStartFailed: another try would end the same way

  // One line: "killed by SIGSEGV after 0.12 s; last words: ...; last place: ...".
  [[nodiscard]] std::string text() const;
};

using Outcome = std::variant<Answer, Lost>;

// Died of a signal that people and kernels send and programs hardly send themselves (SIGKILL,
// SIGTERM,
// ...): it says nothing about the request.
[[nodiscard]] bool is_killed_from_outside(const Lost& lost);

[[nodiscard]] std::string_view name_of(Lost::Reason reason);  // "signal", "exit", "hang", ...
[[nodiscard]] std::string signal_name(int signal_number);     // "SIGSEGV"; "signal 40"

}  // namespace shardfuzz
