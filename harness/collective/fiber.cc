// Fortified headers turn _longjmp into a check that refuses to jump to another stack.
#undef _FORTIFY_SOURCE

#include "harness/collective/fiber.h"

#include <cxxabi.h>
#include <ucontext.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

#include "harness/base/check.h"

namespace shardfuzz {

void Fiber::set_start(FiberStack stack, Entry entry, void* argument) {
  entry_ = entry;
  argument_ = argument;
  stack_ = stack;
  bounds_ = {.bottom = stack.bottom, .bytes = kFiberStackBytes};
}

void Fiber::switch_to(Fiber& next) {
  std::memcpy(&exceptions_, abi::__cxa_get_globals(), sizeof exceptions_);
  next.came_from_ = this;
  asan_leave_stack(&asan_frames_, next.bounds_);
  if (_setjmp(place_) == 0) next.resume();
  arrive();
}

void Fiber::leave_for(Fiber& next) {
  next.came_from_ = this;
  asan_leave_stack(nullptr, next.bounds_);
  next.resume();
}

void Fiber::resume() {
  if (entry_ != nullptr) start();
  _longjmp(place_, 1);
}

// Not inlined: the context would be part of every frame that switches. Without AddressSanitizer's
// poison: this frame is left without a return, and setcontext, unlike _longjmp, clears nothing.
[[gnu::noinline, gnu::no_sanitize_address]] void Fiber::start() {
  ucontext_t context;
  SHARDFUZZ_CHECK(getcontext(&context) == 0, "no context to start a fiber from");
  context.uc_stack.ss_sp = stack_.bottom;
  context.uc_stack.ss_size = kFiberStackBytes;
  context.uc_link = nullptr;
  const auto self = std::bit_cast<std::uint64_t>(this);  // makecontext passes ints
  makecontext(&context, reinterpret_cast<void (*)()>(&Fiber::enter), 2,
              static_cast<unsigned int>(self >> 32), static_cast<unsigned int>(self));
  setcontext(&context);
  SHARDFUZZ_CHECK(false, "a fiber does not start");
}

void Fiber::enter(unsigned int high, unsigned int low) noexcept {
  auto& self = *std::bit_cast<Fiber*>(std::uint64_t{high} << 32 | low);
  self.arrive();
  std::exchange(self.entry_, nullptr)(self.argument_);
  SHARDFUZZ_CHECK(false, "a fiber returned from its entry");
}

void Fiber::arrive() {
  asan_enter_stack(asan_frames_, &came_from_->bounds_);
  std::memcpy(abi::__cxa_get_globals(), &exceptions_, sizeof exceptions_);
}

}  // namespace shardfuzz
