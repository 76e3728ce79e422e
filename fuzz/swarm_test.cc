#include "fuzz/swarm.h"

#include <gtest/gtest.h>

#include <set>

namespace shardfuzz {
namespace {

TEST(Swarm, NamesAreUniqueAndReadable) {
  std::set<std::string_view> names;
  for (const Feature feature : all_features()) {
    names.insert(name_of(feature));
    Swarm only;
    only.set(feature, true);
    EXPECT_EQ(to_text(only), name_of(feature));
    EXPECT_EQ(parse_swarm(name_of(feature)).value(), only);
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kFeatureCount));
}

TEST(Swarm, EachFeatureIsOnHalfTheTime) {
  Random random(1);
  std::vector<int> on(kFeatureCount);
  for (int i = 0; i < 1000; ++i) {
    const Swarm swarm = draw_swarm(random);
    for (const Feature feature : all_features()) {
      on[static_cast<std::size_t>(feature)] += swarm.on(feature) ? 1 : 0;
    }
  }
  for (const Feature feature : all_features()) {
    EXPECT_NEAR(on[static_cast<std::size_t>(feature)], 500, 80) << name_of(feature);
  }
}

TEST(Swarm, SwitchesOnlyWhatItIsTold) {
  Swarm swarm = all_on();
  swarm.set(Feature::kTied, false);
  for (const Feature feature : all_features()) {
    EXPECT_EQ(swarm.on(feature), feature != Feature::kTied) << name_of(feature);
  }
  swarm.set(Feature::kTied, true);
  EXPECT_EQ(swarm, all_on());
}

TEST(Swarm, TextReadsBack) {
  EXPECT_EQ(to_text(Swarm{}), "core");
  EXPECT_EQ(to_text(all_on()), "all");
  EXPECT_EQ(parse_swarm("core").value(), Swarm{});
  EXPECT_EQ(parse_swarm("all").value(), all_on());
  Random random(2);
  for (int i = 0; i < 100; ++i) {
    const Swarm swarm = draw_swarm(random);
    EXPECT_EQ(parse_swarm(to_text(swarm)).value(), swarm) << to_text(swarm);
  }
}

TEST(Swarm, TextMayChangeASet) {
  Swarm want = all_on();
  want.set(Feature::kHsdp, false);
  want.set(Feature::kTied, false);
  EXPECT_EQ(parse_swarm("all,-hsdp,-tied").value(), want);
  want = Swarm{};
  want.set(Feature::kHsdp, true);
  EXPECT_EQ(parse_swarm("tied,core,hsdp").value(), want);
}

TEST(Swarm, RefusesUnknownNames) {
  for (const char* text : {"", "hspd", "all,", "-", "all;tied", "All", "-all"}) {
    const auto parsed = parse_swarm(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_NE(parsed.error().what_to_do.find("late_delivery"), std::string::npos);
  }
  EXPECT_EQ(parse_swarm("all,hspd").error().what, "'hspd' is no feature");
}

}  // namespace
}  // namespace shardfuzz
