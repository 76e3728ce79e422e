#include "harness/case/case_names.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "harness/case/detail/suggest.h"

namespace shardfuzz {
namespace {

// `last` is the last enumerator: one that is added after it without a name fails here.
template <typename Enum>
void expect_all_named(Enum last) {
  const auto& all = all_of<Enum>();
  ASSERT_EQ(all.size(), static_cast<std::size_t>(last) + 1);
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(all[i]), i);
    Enum parsed{};
    EXPECT_TRUE(parse_name(name_of(all[i]), &parsed));
    EXPECT_EQ(parsed, all[i]);
    seen.insert(name_of(all[i]));
  }
  EXPECT_EQ(seen.size(), all.size());
  Enum untouched = last;
  EXPECT_FALSE(parse_name("", &untouched));
  EXPECT_FALSE(parse_name("no such name", &untouched));
  EXPECT_EQ(untouched, last);
}

TEST(CaseNames, EveryEnumeratorHasOne) {
  expect_all_named(DType::kUInt8);
  expect_all_named(CallPath::kMul);
  expect_all_named(OpKind::kFullTensor);
  expect_all_named(DataKind::kNormal);
  expect_all_named(OptimizerKind::kSgdMomentum);
  expect_all_named(SchedulePolicy::kPriority);
  expect_all_named(Delivery::kLate);
}

TEST(CaseNames, AParameterComesWithItsGroup) {
  for (const OpKind kind : all_of<OpKind>()) {
    const OpArguments wanted = arguments_of(kind);
    EXPECT_TRUE(wanted.group || !wanted.param) << name_of(kind);
  }
}

TEST(Suggest, FindsTypingErrorsOnly) {
  const std::vector<std::string_view> known{"shape", "shard_dim", "hook"};
  EXPECT_EQ(detail::nearest("shap", known), "shape");
  EXPECT_EQ(detail::nearest("shrad_dim", known), "shard_dim");
  EXPECT_EQ(detail::nearest("hok", known), "hook");
  EXPECT_EQ(detail::nearest("colour", known), "");
  EXPECT_EQ(detail::nearest("", known), "");
  EXPECT_EQ(detail::way_out("colour", known), "known: shape, shard_dim or hook");
}

TEST(Suggest, QuotesAreSafeToPrint) {
  EXPECT_EQ(detail::in_quotes("a\x1b[0m\n\xff\xc3\xa9"), "'a\\x1b[0m\\x0a\\xff\xc3\xa9'");
  EXPECT_EQ(detail::in_quotes(std::string(100, 'x')), "'" + std::string(60, 'x') + "...'");
  EXPECT_EQ(detail::utf8_length("\xed\xa0\x80"), 0U);
  EXPECT_EQ(detail::utf8_length("\xc0\xaf"), 0U);
  EXPECT_EQ(detail::utf8_length("\xf0\x9f\x98\x80"), 4U);
}

}  // namespace
}  // namespace shardfuzz
