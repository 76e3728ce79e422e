// FiberStacks: stacks for fibers, kept between runs.
//
// Mapping a stack, touching its pages for the first time and unmapping it cost more than a small
// run, so whoever runs many keeps one of these and every run borrows from it.
// Guarantees: a stack has kFiberStackBytes usable bytes and below them kFiberGuardBytes that cannot
// be touched: code that needs more ends the process with a segmentation fault there, unless a
// single frame leaps over the whole guard, instead of writing over another stack. No more stacks
// are mapped than were in use at one time; they are unmapped when the object goes.
// Refused (checked): no memory for a stack; an object that goes while a stack is in use.
// Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <vector>

namespace shardfuzz {

// Both are multiples of every page size in use (4 to 64 KiB).
inline constexpr std::size_t kFiberStackBytes = std::size_t{256} * 1024;
inline constexpr std::size_t kFiberGuardBytes = std::size_t{64} * 1024;  // address space only

struct FiberStack {
  void* bottom = nullptr;  // lowest usable address; the stack grows down to it
};

class FiberStacks {
 public:
  FiberStacks() = default;
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;
  ~FiberStacks();

  FiberStack take();
  void give_back(FiberStack stack);

  [[nodiscard]] std::size_t mapped_count() const { return mapped_count_; }

 private:
  std::vector<FiberStack> free_;
  std::size_t mapped_count_ = 0;
};

}  // namespace shardfuzz
