#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/oracle/properties.h"
#include "harness/oracle/test_traces.h"

namespace shardfuzz {
namespace {

TEST(P11, TheSameTraceTwiceGivesNoFinding) {
  for (const SmallCase& shape : healthy_shapes()) {
    const Trace trace = healthy_trace(small_case(shape));
    Findings found;
    check_determinism(trace, trace, &found);
    EXPECT_EQ(found, Findings{});
  }
}

TEST(P11, TheFirstEventThatDiffersIsNamedWithBothForms) {
  const Trace first = healthy_trace(small_case());
  Trace second = first;
  change<Unsharded>(&second, 1, "w", [](Unsharded& view) { view.tags = 3; });
  change<Storage>(&second, 0, "w", [](Storage& storage) { storage.unsharded_bytes = 3; });
  Findings found;
  check_determinism(first, second, &found);
  ASSERT_EQ(found.size(), 1U);
  const std::int64_t at = first_index<Unsharded>(first, 1, "w");
  EXPECT_EQ(found[0].property, "P11");
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].phase, "forward");
  EXPECT_EQ(found[0].step, 0);
  EXPECT_EQ(found[0].event, at);
  EXPECT_EQ(found[0].sentence.find("two runs of the case differ at event " + std::to_string(at)),
            0U);
  EXPECT_NE(found[0].sentence.find("\"tags\":0"), std::string::npos);
  EXPECT_NE(found[0].sentence.find("\"tags\":3"), std::string::npos);
}

TEST(P11, ATraceThatEndsEarlierDiffers) {
  const Trace first = healthy_trace(small_case());
  Trace second = first;
  second.events.pop_back();
  Findings found;
  check_determinism(first, second, &found);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence, fmt::format("two runs of the case have {} and {} events",
                                           first.events.size(), first.events.size() - 1));
}

}  // namespace
}  // namespace shardfuzz
