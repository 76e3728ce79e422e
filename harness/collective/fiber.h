// Fiber: a flow of control with a stack of its own, on the caller's thread.
//
// A fiber starts through makecontext/setcontext, once, and is left and resumed by
// _setjmp/_longjmp, which, unlike swapcontext, do not ask the kernel for the signal mask (two
// system calls a switch). Known to be right because a jump goes only to a _setjmp whose function
// has not returned (its frame lies on a stack that nobody else uses until the fiber is resumed) and
// on the thread that made it, which is what C asks of longjmp; glibc's restores the callee-saved
// registers, the stack pointer and the place, and unwinds nothing. fiber_test.cc checks values,
// exceptions and stacks over many switches; it runs under AddressSanitizer too.
//
// What goes with a switch: the C++ runtime's caught and flying exceptions (kept for each thread by
// the runtime), so that a fiber may be left inside a catch block or a destructor, and
// AddressSanitizer's idea of the stack. What does not: thread_local variables, errno, the
// floating-point modes and the signal mask are those of the thread, shared by its fibers. A guard
// that sets a thread_local (torch's NoGradGuard) and is held over a switch acts on all of them.
// Limits: a 64-bit libc with makecontext; no user shadow stacks (CET), which Linux turns on only
// where asked to. Under AddressSanitizer a switch clears the poison between the variables of frames
// that it leaves, so that an overflow from one of them into the next is not seen afterwards.
// Thread rule: a fiber stays on the thread that started it.
#pragma once

#include <csetjmp>

#include "harness/collective/detail/address_sanitizer.h"
#include "harness/collective/fiber_stacks.h"

namespace shardfuzz {

class Fiber {
 public:
  using Entry = void (*)(void* argument);  // ends with leave_for(): never returns or throws

  Fiber() = default;  // stands for what is running when switch_to() leaves it
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The first switch to this fiber calls `entry`. `stack` stays the caller's, who takes it back
  // when the fiber has left for ever.
  void set_start(FiberStack stack, Entry entry, void* argument);
  void switch_to(Fiber& next);  // by this fiber; returns when another one switches back
  [[noreturn]] void leave_for(Fiber& next);  // by this fiber, for ever

 private:
  // The head of the C++ ABI's __cxa_eh_globals, whose layout all 64-bit runtimes share.
  struct Exceptions {
    void* caught;
    unsigned int flying_count;
  };

  [[noreturn]] void resume();
  [[noreturn]] void start();
  static void enter(unsigned int high, unsigned int low) noexcept;
  void arrive();

  std::jmp_buf place_;  // where it was left
  Exceptions exceptions_ = {};
  Entry entry_ = nullptr;  // null once called
  void* argument_ = nullptr;
  FiberStack stack_;
  StackBounds bounds_;
  void* asan_frames_ = nullptr;
  Fiber* came_from_ = nullptr;
};

}  // namespace shardfuzz
