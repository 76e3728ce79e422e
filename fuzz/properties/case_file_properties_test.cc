// Laws of the case file (harness/case/case_json.h): every case has one spelling, is read back as it
// was, and its hash names the experiment.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fuzz/properties/property.h"
#include "harness/case/test_cases.h"

namespace shardfuzz {
namespace {

using Json = nlohmann::json;

// What a fuzz run makes, or anything that the format can hold.
Case any_case() {
  const std::uint64_t seed = any_seed();
  Random random(seed);
  Case c = any_int(0, 1) == 0 ? generated_case(seed) : random_case(&random);
  // The default four have two forms in memory and one in the file.
  if (c.operations == operations_of(Case{})) c.operations.clear();
  return c;
}

Case read_back(const std::string& text) {
  const Result<Case> read = parse_case(text, "case.json");
  if (!read) RC_FAIL(read.error().text() + "\n" + text);
  return *read;
}

RC_GTEST_PROP(CaseFile, EverySpellingIsReadBackAsTheSameCase, ()) {
  const Case c = any_case();
  RC_ASSERT(read_back(canonical_text(c)) == c);
  RC_ASSERT(read_back(compact_text(c)) == c);
  RC_ASSERT(read_back(full_text(c)) == c);
}

RC_GTEST_PROP(CaseFile, TheCanonicalTextIsThatOfEverySpelling, ()) {
  const Case c = any_case();
  const std::string canonical = canonical_text(c);
  for (const std::string& text : {canonical, compact_text(c), full_text(c)}) {
    RC_ASSERT(canonical_text(read_back(text)) == canonical);
    RC_ASSERT(canonical_text(read_back(Json::parse(text).dump(7, '\t'))) == canonical);
  }
  Case spelled_out = c;
  spelled_out.operations = operations_of(c);
  RC_ASSERT(canonical_text(spelled_out) == canonical);
}

RC_GTEST_PROP(CaseFile, TextForPipesIsOneLine, ()) {
  const Case c = any_case();
  RC_ASSERT(compact_text(c).find('\n') == std::string::npos);
  RC_ASSERT(full_text(c).find('\n') == std::string::npos);
}

// ---- the hash -----------------------------------------------------------------------------------

// The experiment alone: what case_hash must depend on, and on nothing else.
std::string experiment(Case c) {
  c.name.clear();
  c.origin = {};
  c.expect = {};
  c.predicate.clear();
  c.history.clear();
  c.environment.torch.clear();
  c.environment.torchao.clear();
  c.environment.nccl.clear();
  return canonical_text(c);
}

// Other values of the same type: near ones, so that a digit or a sign that is not hashed shows.
Json other_value(const Json& value, Random* random) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) {
    const auto number = value.get<std::int64_t>();
    return random->chance(50) ? number / 2 : number ^ 1;
  }
  if (value.is_string()) {
    static const std::vector<std::string> kWords{"",      "fp32",   "bf16", "forward", "plain",
                                                 "early", "random", "mul",  "shard",   "native"};
    return kWords[random->below(kWords.size())];
  }
  return value;
}

// A case that differs from `c` in one value of its file, or in none. Most fields of a case take
// most values: a few draws find one that the reader accepts.
Case changed_in_one_place(const Case& c, Random* random) {
  constexpr int kDrawsMax = 20;
  const Json json = Json::parse(full_text(c));
  const Json leaves = json.flatten();
  std::vector<std::string> places;
  for (const auto& leaf : leaves.items()) {
    const Json& value = json[Json::json_pointer(leaf.key())];
    if (!value.is_structured() && leaf.key() != "/schema") places.push_back(leaf.key());
  }
  for (int draw = 0; draw < kDrawsMax; ++draw) {
    const Json::json_pointer place(places[random->below(places.size())]);
    Json changed = json;
    changed[place] = other_value(json[place], random);
    const Result<Case> read = parse_case(changed.dump(), "changed.json");
    if (read) return *read;
  }
  return c;
}

RC_GTEST_PROP(CaseFile, HashesAreEqualWhereTheExperimentsAreAndNowhereElse, ()) {
  Random random(any_seed());
  const Case a = any_case();
  for (int i = 0; i < 8; ++i) {
    const Case b = changed_in_one_place(a, &random);
    RC_ASSERT((case_hash(a) == case_hash(b)) == (experiment(a) == experiment(b)));
  }
}

RC_GTEST_PROP(CaseFile, TheHashIsThatOfTheCaseReadBack, ()) {
  const Case c = any_case();
  RC_ASSERT(case_hash(read_back(full_text(c))) == case_hash(c));
  Case of_the_file = c;
  of_the_file.name += "x";
  of_the_file.origin.note += "x";
  of_the_file.expect.sentence += "x";
  of_the_file.predicate += "x";
  of_the_file.history.push_back({.date = "2026-01-01"});
  of_the_file.environment.torch += "x";
  RC_ASSERT(case_hash(of_the_file) == case_hash(c));
  RC_ASSERT(canonical_text(of_the_file) != canonical_text(c));
}

}  // namespace
}  // namespace shardfuzz
