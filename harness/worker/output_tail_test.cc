#include "harness/worker/output_tail.h"

#include <gtest/gtest.h>

namespace shardfuzz {
namespace {

TEST(OutputTail, GivesTheLastLines) {
  OutputTail tail;
  EXPECT_EQ(tail.lines(3), "");
  tail.append("one\ntwo\nth");
  tail.append("ree\n");
  EXPECT_EQ(tail.lines(1), "three\n");
  EXPECT_EQ(tail.lines(2), "two\nthree\n");
  EXPECT_EQ(tail.lines(9), "one\ntwo\nthree\n");
  tail.append("four");
  EXPECT_EQ(tail.lines(2), "three\nfour");
  tail.append("\n\n");
  EXPECT_EQ(tail.lines(2), "four\n\n");
}

TEST(OutputTail, HoldsNoMoreThanItsBound) {
  OutputTail tail;
  for (int i = 0; i < 100'000; ++i) tail.append("0123456789abcde\n");
  EXPECT_EQ(tail.held_bytes(), kOutputTailBytes);
  EXPECT_EQ(tail.lines(2), "0123456789abcde\n0123456789abcde\n");
  tail.append(std::string(5 * kOutputTailBytes, 'x') + "\nend\n");
  EXPECT_EQ(tail.held_bytes(), kOutputTailBytes);
  EXPECT_EQ(tail.lines(1), "end\n");
  EXPECT_EQ(tail.lines(2).size(), kOutputTailBytes) << "a line without a beginning";
}

TEST(OutputTail, PrintableKeepsUtf8AndReplacesTheRest) {
  EXPECT_EQ(printable("plain\ttext\n"), "plain\ttext\n");
  EXPECT_EQ(printable("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(printable("\x1b[31mred"), "?[31mred");
  EXPECT_EQ(printable("cut \xe2\x82"), "cut ??");
  EXPECT_EQ(printable("\xa9 \xc0\x80 \xed\xa0\x80 \xf5"), "? ?? ??? ?") << "overlong, surrogate";
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a?b");
}

}  // namespace
}  // namespace shardfuzz
