#include "tools/interrupt.h"

#include <csignal>

namespace shardfuzz {
namespace {

volatile std::sig_atomic_t interrupted = 0;

extern "C" void on_interrupt(int number) {
  if (interrupted != 0) {
    std::signal(number, SIG_DFL);
    std::raise(number);
  }
  interrupted = 1;
}

}  // namespace

void catch_interrupts() {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
}

bool is_interrupted() { return interrupted != 0; }

}  // namespace shardfuzz
