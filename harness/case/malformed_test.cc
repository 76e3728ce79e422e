// Whatever the text, the program says what is wrong and where, and never crashes.
#include "harness/case/malformed_texts.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>

#include "harness/base/random.h"
#include "harness/case/case_json.h"
#include "harness/case/detail/suggest.h"
#include "harness/case/test_cases.h"
#include "harness/case/validate.h"

namespace shardfuzz {
namespace {

constexpr std::size_t kErrorBytesMax = 1000;

std::optional<Error> error_of(const std::string& text) {
  const Result<Case> read = parse_case(text, "x.json");
  if (!read) return read.error();
  const Status fine = validate(*read);
  if (!fine) return fine.error();
  return std::nullopt;
}

void expect_useful(const Error& error) {
  EXPECT_FALSE(error.what.empty());
  EXPECT_FALSE(error.where.empty());
  EXPECT_FALSE(error.what_to_do.empty());
  const std::string text = error.text();
  EXPECT_LT(text.size(), kErrorBytesMax);
  // Safe for a terminal and for a JSON report, whatever bytes the file held.
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t length = detail::utf8_length(rest);
    ASSERT_GT(length, 0U) << "no UTF-8 at byte " << text.size() - rest.size();
    ASSERT_GE(static_cast<unsigned char>(rest[0]), 0x20);
    rest.remove_prefix(length);
  }
}

TEST(Malformed, EveryTextIsRefusedWithAPlaceAndAWayOut) {
  const auto texts = malformed_texts(kMalformedSeed);
  EXPECT_GE(texts.size(), 200U);
  for (const MalformedText& malformed : texts) {
    SCOPED_TRACE(malformed.name);
    const std::optional<Error> error = error_of(malformed.text);
    ASSERT_TRUE(error) << malformed.text.substr(0, 5000);
    expect_useful(*error);
  }
}

TEST(Malformed, TextsAreTheSameForOneSeedAndHaveNamesOfTheirOwn) {
  const auto texts = malformed_texts(7);
  const auto again = malformed_texts(7);
  ASSERT_EQ(texts.size(), again.size());
  std::set<std::string> names;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(texts[i].text, again[i].text);
    EXPECT_EQ(texts[i].name.find('/'), std::string::npos);
    names.insert(texts[i].name);
  }
  EXPECT_EQ(names.size(), texts.size());
}

TEST(Malformed, OtherSeedsAreRefusedToo) {
  for (std::uint64_t seed = 100; seed < 110; ++seed) {
    for (const MalformedText& malformed : malformed_texts(seed)) {
      if (malformed.text.size() > 100000) continue;  // the same for every seed, and slow
      ASSERT_TRUE(error_of(malformed.text)) << seed << " " << malformed.name << malformed.text;
    }
  }
}

// Random changes may leave a valid case; what is read must then survive a round trip.
TEST(Malformed, RandomBytesNeverCrash) {
  Random random(2);
  const std::string good = canonical_text(good_case());
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string text = good;
    for (std::uint64_t change = 1 + random.below(3); change > 0; --change) {
      const std::size_t place = random.below(text.size());
      const std::size_t length = random.below(20);
      if (random.chance(30)) text[place] = static_cast<char>(random.below(256));
      if (random.chance(30)) text.erase(place, length);
      if (random.chance(30)) text.insert(place, text.substr(random.below(text.size()), length));
      if (text.empty()) text = good;
    }
    const Result<Case> read = parse_case(text, "x.json");
    if (!read) {
      ++refused;
      expect_useful(read.error());
      continue;
    }
    const Result<Case> again = parse_case(canonical_text(*read), "y.json");
    ASSERT_TRUE(again.ok() && *again == *read) << text;
    if (const Status fine = validate(*read); !fine) expect_useful(fine.error());
  }
  EXPECT_GT(refused, 2500);
  EXPECT_LT(refused, 5000);
}

}  // namespace
}  // namespace shardfuzz
