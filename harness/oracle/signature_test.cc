#include "harness/oracle/signature.h"

#include <gtest/gtest.h>

#include <string>

#include "harness/oracle/test_traces.h"

namespace shardfuzz {
namespace {

TEST(ExceptionSlug, KeepsTheFirstWordsAndNoNumberListOrAddress) {
  const auto slug = [](const std::string& message) { return exception_slug("E", message); };
  EXPECT_EQ(
      slug("setStorage: sizes [1, 16, 32], strides [512, 32, 1], storage offset 0, and itemsize 2 "
           "requiring a storage size of 1024"),
      "E.setstorage-sizes-strides-storage-offset-and");
  EXPECT_EQ(slug("rank 3 of 16 got 0x7f12ab at int8"), "E.rank-of-got-at");
  EXPECT_EQ(slug("shape torch.Size([2, 3]) != {'a': [1]} here"), "E.shape-torch-size-here");
  EXPECT_EQ(slug("unclosed [1, 2"), "E.unclosed");
  EXPECT_EQ(slug("_private name_of it"), "E._private-name_of-it");
  EXPECT_EQ(slug(""), "E");
  EXPECT_EQ(slug("12 [3]"), "E");
}

TEST(ExceptionSlug, IsTheSameForOneErrorInTwoSizes) {
  EXPECT_EQ(exception_slug("RuntimeError", "sizes [1, 2] do not fit 8 bytes on rank 0"),
            exception_slug("RuntimeError", "sizes [4, 5, 6] do not fit 4096 bytes on rank 17"));
}

// The signature of one finding in a case and a trace without exceptions.
std::string signature_for(const Case& c, Finding finding) {
  const Expected expected(c);
  return signature_of(expected, Trace{}, {std::move(finding)});
}

TEST(Signature, NamesPackAndHookOfTheParameterAndTheClassOfTheRank) {
  const Case c = small_case({.experts = 3, .ranks = 4, .hook = "shipped"});
  const auto at = [&](int rank) {
    return signature_for(c, {.property = "P5", .rank = rank, .group = "experts", .param = "w"});
  };
  EXPECT_EQ(at(0), "torchao_moe_fp8:shipped|P5|-|full");
  EXPECT_EQ(at(3), "torchao_moe_fp8:shipped|P5|-|empty");
  EXPECT_EQ(at(-1), "torchao_moe_fp8:shipped|P5|-|full");
  const Case uneven = small_case({.experts = 3, .ranks = 2});
  EXPECT_EQ(signature_for(uneven, {.property = "P4", .rank = 1, .group = "experts", .param = "w"}),
            "torchao_moe_fp8:padded|P4|-|short");
}

TEST(Signature, AFindingWithoutAParameterGoesByItsGroupThenByTheCase) {
  const Case c = small_case({.hook = "shipped"});
  EXPECT_EQ(signature_for(c, {.property = "P9", .rank = 0, .group = "experts"}),
            "torchao_moe_fp8:shipped|P9|-|full");
  EXPECT_EQ(signature_for(c, {.property = "P3"}), "-|P3|-|full") << "the case mixes two packs";
  Case one = c;
  one.groups[0].params.clear();
  EXPECT_EQ(signature_for(one, {.property = "P3"}), "torchao_moe_fp8:shipped|P3|-|full");
}

TEST(Signature, TheLowestRankOfTheSamePropertyAndParameterGivesTheClass) {
  const Case c = small_case({.experts = 5, .ranks = 4});  // rows 2, 2, 1, 0
  const Expected expected(c);
  const auto finding = [](const char* property, int rank) {
    return Finding{.property = property, .rank = rank, .group = "experts", .param = "w"};
  };
  EXPECT_EQ(signature_of(expected, {}, {finding("P1", 3), finding("P1", 2), finding("P4", 0)}),
            "torchao_moe_fp8:padded|P1|-|short");
}

TEST(Signature, TheExceptionIsThatOfTheOffendingRankElseTheFirstInProgramOrder) {
  const Case c = small_case();
  const Expected expected(c);
  Trace trace = healthy_trace(c);
  add(&trace, 0, Raised{.type = "RuntimeError", .message = "shardfuzz: ...", .by_harness = true});
  add(&trace, 0, Raised{.type = "ValueError", .message = "bad value"});
  trace.events.back().step = 2;
  add(&trace, 1, Raised{.type = "TypeError", .message = "bad type"});
  trace.events.back().step = 1;
  const Finding of_rank_0{.property = "P4", .rank = 0}, of_none{.property = "P3"};
  EXPECT_EQ(signature_of(expected, trace, {of_rank_0}), "-|P4|ValueError.bad-value|full");
  EXPECT_EQ(signature_of(expected, trace, {of_none}), "-|P3|TypeError.bad-type|full");
}

}  // namespace
}  // namespace shardfuzz
