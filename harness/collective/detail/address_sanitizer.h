// What fibers tell AddressSanitizer, or nothing where it is not built in.
//
// It keeps the bounds of the running stack and, with detect_stack_use_after_return, a heap of
// frames for it; both must change hands with the stack, and poison left by frames that never
// returned must be cleared before a stack is used again.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define SHARDFUZZ_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SHARDFUZZ_HAS_ASAN 1
#endif
#endif

#if defined(SHARDFUZZ_HAS_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace shardfuzz {

struct StackBounds {
  const void* bottom = nullptr;
  std::size_t bytes = 0;
};

// Before a switch. `frames`: where to keep those of the stack that is left; null: left for ever.
inline void asan_leave_stack([[maybe_unused]] void** frames,
                             [[maybe_unused]] const StackBounds& next) {
#if defined(SHARDFUZZ_HAS_ASAN)
  __sanitizer_start_switch_fiber(frames, next.bottom, next.bytes);
#endif
}

// After it, on the new stack. `frames`: as kept when it was left. Fills in the bounds of the stack
// that was left.
inline void asan_enter_stack([[maybe_unused]] void* frames, [[maybe_unused]] StackBounds* left) {
#if defined(SHARDFUZZ_HAS_ASAN)
  __sanitizer_finish_switch_fiber(frames, &left->bottom, &left->bytes);
#endif
}

inline void asan_unpoison([[maybe_unused]] void* begin, [[maybe_unused]] std::size_t bytes) {
#if defined(SHARDFUZZ_HAS_ASAN)
  __asan_unpoison_memory_region(begin, bytes);
#endif
}

}  // namespace shardfuzz
