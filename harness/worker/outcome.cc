#include "harness/worker/outcome.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>

namespace shardfuzz {

std::string_view name_of(Lost::Reason reason) {
  switch (reason) {
    case Lost::Reason::kSignal: return "signal";
    case Lost::Reason::kExit: return "exit";
    case Lost::Reason::kHang: return "hang";
    case Lost::Reason::kMemory: return "memory";
    case Lost::Reason::kProtocol: return "protocol";
    case Lost::Reason::kStartFailed: return "start_failed";
  }
  return "?";
}

bool is_killed_from_outside(const Lost& lost) {
  if (lost.reason != Lost::Reason::kSignal) return false;
  const int number = lost.signal_or_code;
  return number == SIGKILL || number == SIGTERM || number == SIGINT || number == SIGHUP ||
         number == SIGQUIT;
}

std::string signal_name(int signal_number) {
  const char* name = sigabbrev_np(signal_number);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal_number);
}

std::string Lost::text() const {
  std::string line = fmt::format("{} after {:.2f} s", what, seconds);
  if (!last_words.empty()) line += "; last words: " + last_words;
  if (!last_place.empty()) line += "; last place: " + last_place;
  return line;
}

}  // namespace shardfuzz
