#include "harness/collective/fiber_stacks.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "harness/base/check.h"
#include "harness/collective/detail/address_sanitizer.h"

namespace shardfuzz {
namespace {

constexpr std::size_t kMappedBytes = kFiberGuardBytes + kFiberStackBytes;

FiberStack map_stack() {
  void* mapping = mmap(nullptr, kMappedBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
  SHARDFUZZ_CHECK(mapping != MAP_FAILED, "no memory for a fiber's stack: {}", std::strerror(errno));
  SHARDFUZZ_CHECK(mprotect(mapping, kFiberGuardBytes, PROT_NONE) == 0,
                  "no guard below a fiber's stack: {}", std::strerror(errno));
  return {.bottom = static_cast<char*>(mapping) + kFiberGuardBytes};
}

}  // namespace

FiberStacks::~FiberStacks() {
  SHARDFUZZ_CHECK(free_.size() == mapped_count_, "{} of {} fiber stacks are in use",
                  mapped_count_ - free_.size(), mapped_count_);
  for (const FiberStack stack : free_) {
    munmap(static_cast<char*>(stack.bottom) - kFiberGuardBytes, kMappedBytes);
  }
}

FiberStack FiberStacks::take() {
  if (free_.empty()) {
    ++mapped_count_;
    return map_stack();
  }
  const FiberStack stack = free_.back();
  free_.pop_back();
  return stack;
}

void FiberStacks::give_back(FiberStack stack) {
  // A fiber ends without returning from its last frames, so their poison is still there.
  asan_unpoison(stack.bottom, kFiberStackBytes);
  free_.push_back(stack);
}

}  // namespace shardfuzz
