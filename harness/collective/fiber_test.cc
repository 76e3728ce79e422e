#include "harness/collective/fiber.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace shardfuzz {
namespace {

// A fiber that runs a function, may pause in it, and ends where it was last told to go on.
class Strand {
 public:
  Strand(FiberStacks& stacks, std::function<void()> body)
      : stacks_(stacks), stack_(stacks.take()), body_(std::move(body)) {
    fiber_.set_start(stack_, &run, this);
  }
  ~Strand() { stacks_.give_back(stack_); }

  void go_on() { outside_.switch_to(fiber_); }
  void pause() { fiber_.switch_to(outside_); }  // by the body
  [[nodiscard]] bool is_done() const { return is_done_; }

 private:
  static void run(void* argument) {
    auto& self = *static_cast<Strand*>(argument);
    self.body_();
    self.is_done_ = true;
    self.fiber_.leave_for(self.outside_);
  }

  FiberStacks& stacks_;
  FiberStack stack_;
  std::function<void()> body_;
  Fiber fiber_, outside_;
  bool is_done_ = false;
};

TEST(Fiber, StartsAtTheFirstSwitchAndGoesOnWhereItPaused) {
  FiberStacks stacks;
  std::string text;
  Strand* self = nullptr;
  Strand strand(stacks, [&] {
    text += "b";
    self->pause();
    text += "d";
  });
  self = &strand;
  text += "a";
  strand.go_on();
  text += "c";
  EXPECT_FALSE(strand.is_done());
  strand.go_on();
  EXPECT_TRUE(strand.is_done());
  EXPECT_EQ(text, "abcd");
}

// Adds up numbers kept in as many variables as there are registers that a callee must save.
double sum_with_pauses(Strand* self, std::int64_t start, int pauses) {
  std::int64_t a = start, b = start + 1, c = start + 2, d = start + 3, e = start + 4;
  double x = 0.5 * static_cast<double>(start), y = 0.25, z = 0.125;
  for (int i = 0; i < pauses; ++i) {
    self->pause();
    a += 1, b += a, c ^= b, d -= c, e += d;
    x += y, y += z, z += 0.0625;
  }
  return static_cast<double>(a + b + c + d + e) + x + y + z;
}

TEST(Fiber, KeepsItsOwnValuesOverManySwitches) {
  constexpr int kPauses = 1000;
  FiberStacks stacks;
  std::vector<double> mixed(3), alone(3);
  std::vector<Strand*> self(3);
  const auto body = [&](std::size_t i, std::vector<double>& sums) {
    return [&, i] { sums[i] = sum_with_pauses(self[i], static_cast<std::int64_t>(i), kPauses); };
  };
  for (std::size_t i = 0; i < 3; ++i) {
    Strand strand(stacks, body(i, alone));
    self[i] = &strand;
    while (!strand.is_done()) strand.go_on();
  }
  Strand a(stacks, body(0, mixed)), b(stacks, body(1, mixed)), c(stacks, body(2, mixed));
  self = {&a, &b, &c};
  for (int i = 0; i <= kPauses; ++i) {
    for (Strand* strand : self) strand->go_on();
  }
  EXPECT_TRUE(a.is_done() && b.is_done() && c.is_done());
  EXPECT_EQ(mixed, alone);
  EXPECT_NE(mixed[0], mixed[1]);
}

std::string current_exception_text() {
  const std::exception_ptr current = std::current_exception();
  if (!current) return "none";
  try {
    std::rethrow_exception(current);
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Throws, pauses while the exception is handled, and throws it on from there.
std::string rethrow_after_pause(Strand* self, const std::string& what) {
  try {
    try {
      throw std::runtime_error(what);
    } catch (const std::exception&) {
      self->pause();
      throw;
    }
  } catch (const std::exception& error) {
    return error.what();
  }
}

TEST(Fiber, EachHandlesItsOwnExceptionWhateverTheOthersThrow) {
  FiberStacks stacks;
  std::string of_a, of_b;
  Strand *self_a = nullptr, *self_b = nullptr;
  Strand a(stacks, [&] { of_a = rethrow_after_pause(self_a, "a's"); });
  Strand b(stacks, [&] { of_b = rethrow_after_pause(self_b, "b's"); });
  self_a = &a;
  self_b = &b;
  a.go_on();
  b.go_on();
  EXPECT_EQ(current_exception_text(), "none") << "outside nothing was thrown";
  a.go_on();  // in another order than last in, first out
  b.go_on();
  EXPECT_EQ(of_a, "a's");
  EXPECT_EQ(of_b, "b's");
}

TEST(Fiber, AFiberOfACatchBlockDoesNotSeeItsException) {
  FiberStacks stacks;
  std::string inside;
  Strand strand(stacks, [&] {
    inside = current_exception_text();
    try {
      throw std::runtime_error("inner");
    } catch (const std::exception&) {
    }
  });
  try {
    throw std::runtime_error("outer");
  } catch (const std::exception&) {
    strand.go_on();
    EXPECT_EQ(current_exception_text(), "outer");
  }
  EXPECT_EQ(inside, "none");
}

struct PausesInDestructor {
  Strand*& self;
  int& flying;
  ~PausesInDestructor() {
    self->pause();
    flying = std::uncaught_exceptions();
  }
};

TEST(Fiber, MayPauseWhileAnExceptionUnwinds) {
  FiberStacks stacks;
  int flying = -1;
  bool caught = false;
  Strand* self = nullptr;
  Strand strand(stacks, [&] {
    try {
      const PausesInDestructor pauses{self, flying};
      throw std::runtime_error("flies");
    } catch (const std::exception&) {
      caught = true;
    }
  });
  self = &strand;
  strand.go_on();
  EXPECT_EQ(std::uncaught_exceptions(), 0) << "outside nothing flies";
  EXPECT_FALSE(caught);
  strand.go_on();
  EXPECT_EQ(flying, 1);
  EXPECT_TRUE(caught);
}

TEST(Fiber, MayRunInsideAnotherFiber) {
  FiberStacks stacks;
  std::string text;
  Strand *inner_self = nullptr, *outer_self = nullptr;
  Strand outer(stacks, [&] {
    Strand inner(stacks, [&] {
      text += "1";
      inner_self->pause();
      text += "3";
    });
    inner_self = &inner;
    inner.go_on();
    text += "2";
    outer_self->pause();
    inner.go_on();
  });
  outer_self = &outer;
  outer.go_on();
  outer.go_on();
  EXPECT_TRUE(outer.is_done());
  EXPECT_EQ(text, "123");
}

// ---- stacks -------------------------------------------------------------------------------------

TEST(FiberStacks, ATakenStackIsUsableToItsLastByteAndNoOneElses) {
  FiberStacks stacks;
  const FiberStack a = stacks.take(), b = stacks.take();
  std::memset(a.bottom, 1, kFiberStackBytes);
  std::memset(b.bottom, 2, kFiberStackBytes);
  const auto* bytes = static_cast<const unsigned char*>(a.bottom);
  for (std::size_t i = 0; i < kFiberStackBytes; ++i) ASSERT_EQ(bytes[i], 1) << "byte " << i;
  stacks.give_back(a);
  stacks.give_back(b);
}

TEST(FiberStacks, AStackThatCameBackIsTakenAgain) {
  FiberStacks stacks;
  const FiberStack a = stacks.take(), b = stacks.take();
  stacks.give_back(a);
  EXPECT_EQ(stacks.take().bottom, a.bottom);
  EXPECT_EQ(stacks.mapped_count(), 2U);
  stacks.give_back(a);
  stacks.give_back(b);
  EXPECT_EQ(stacks.mapped_count(), 2U);
}

TEST(FiberStacksDeathTest, NothingBelowAStackCanBeWritten) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  FiberStacks stacks;
  const FiberStack stack = stacks.take();
  auto* bottom = static_cast<volatile char*>(stack.bottom);
  EXPECT_DEATH(bottom[-1] = 1, "");
  EXPECT_DEATH(bottom[-static_cast<std::ptrdiff_t>(kFiberGuardBytes)] = 1, "");
  stacks.give_back(stack);
}

TEST(FiberStacksDeathTest, StacksThatGoWhileOneIsInUseAreABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        FiberStacks stacks;
        stacks.take();
      },
      "1 of 1 fiber stacks are in use");
}

}  // namespace
}  // namespace shardfuzz
