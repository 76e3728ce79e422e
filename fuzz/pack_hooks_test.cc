#include "fuzz/pack_hooks.h"

#include <gtest/gtest.h>

namespace shardfuzz {
namespace {

std::vector<std::string> chosen(const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  const auto parsed = parse_pack_hooks(names);
  for (const PackHook& each : parsed.value()) texts.push_back(to_text(each));
  return texts;
}

using Texts = std::vector<std::string>;

TEST(PackHooks, APackMeansEachOfItsHooks) {
  EXPECT_EQ(
      chosen({"torchao_moe_fp8"}),
      (Texts{"torchao_moe_fp8:shipped", "torchao_moe_fp8:one_arg", "torchao_moe_fp8:padded"}));
  EXPECT_EQ(chosen({"torchao_moe_fp8:one_arg", "plain"}),
            (Texts{"torchao_moe_fp8:one_arg", "plain:none"}));
}

TEST(PackHooks, NoNamesMeanAllPacks) {
  std::size_t hooks = 0;
  for (const PackInfo& pack : all_packs()) hooks += pack.hooks.size();
  EXPECT_EQ(chosen({}).size(), hooks);
  EXPECT_EQ(chosen({}).front(), "plain:none");
}

TEST(PackHooks, NamesOnceWhatIsNamedTwice) {
  EXPECT_EQ(chosen({"plain", "plain:none", "plain"}), (Texts{"plain:none"}));
}

TEST(PackHooks, KnowsWhereAllAreControls) {
  const auto all_controls = [](const std::vector<std::string>& names) {
    return only_controls(parse_pack_hooks(names).value());
  };
  EXPECT_TRUE(all_controls({"plain", "torchao_moe_fp8:padded"}));
  EXPECT_FALSE(all_controls({"plain", "torchao_moe_fp8:shipped"}));
  EXPECT_FALSE(all_controls({}));
}

TEST(PackHooks, RefusesUnknownNames) {
  for (const char* name : {"", "plian", "plain:", "plain:padded", ":none", "plain:none:none"}) {
    const auto parsed = parse_pack_hooks({"plain", name});
    ASSERT_FALSE(parsed) << name;
    EXPECT_NE(parsed.error().what.find(name), std::string::npos);
    EXPECT_NE(parsed.error().what_to_do.find("torchao_moe_fp8:one_arg"), std::string::npos);
  }
}

}  // namespace
}  // namespace shardfuzz
