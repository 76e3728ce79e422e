// repro_cases/schema.json describes exactly what the writer writes and the reader takes.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "harness/case/case_json.h"
#include "harness/case/case_names.h"
#include "harness/case/detail/case_fields.h"
#include "harness/case/test_cases.h"
#include "harness/case/validate.h"

namespace shardfuzz {
namespace {

using nlohmann::json;

const json& schema() {
  static const json loaded = [] {
    std::ifstream file(SHARDFUZZ_SOURCE_DIR "/repro_cases/schema.json");
    return json::parse(file);
  }();
  return loaded;
}

// Follows "$ref": "#/...".
const json& resolved(const json& node) {
  if (!node.contains("$ref")) return node;
  return resolved(schema().at(json::json_pointer(node["$ref"].get<std::string>().substr(1))));
}

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

// `value` is what the writer made of a case in which no field has its default.
void expect_described(const json& value, const json& reference, const std::string& at) {
  SCOPED_TRACE(at);
  const json& node = resolved(reference);
  if (value.is_array()) {
    ASSERT_EQ(node.value("type", ""), "array");
    for (const auto& item : value) expect_described(item, node["items"], at + "/*");
  }
  if (!value.is_object()) return;
  const json& object = node.contains("oneOf") ? resolved(node["oneOf"][1]) : node;
  EXPECT_EQ(object.value("additionalProperties", true), false);
  EXPECT_EQ(keys_of(object["properties"]), keys_of(value));
  for (const auto& [key, property] : object["properties"].items()) {
    EXPECT_TRUE(property.contains("description") || resolved(property).contains("description"))
        << key;
    expect_described(value[key], property, at + "/" + key);
  }
}

TEST(Schema, PropertiesAreTheWritersFields) {
  expect_described(json::parse(full_text(full_case())), schema(), "");
}

// The short form of a full case shows that full_case leaves no field at its default, so that the
// round trip of it covers each field.
TEST(Schema, FullCaseLeavesNoFieldOut) {
  const json written = json::parse(canonical_text(full_case()));
  std::set<std::string> seen;
  const auto walk = [&](const auto& self, const json& node) -> void {
    if (node.is_object()) {
      for (const auto& [key, value] : node.items()) seen.insert(key);
    }
    if (!node.is_structured()) return;
    for (const auto& item : node) self(self, item);
  };
  walk(walk, written);
  const json all = json::parse(full_text(full_case()));
  std::set<std::string> expected;
  std::swap(seen, expected);
  walk(walk, all);
  EXPECT_EQ(seen, expected);
}

template <typename T>
std::set<std::string> required_fields() {
  std::set<std::string> names;
  detail::for_each_field<T>([&](const auto& field) {
    if (field.presence == detail::Presence::kRequired) names.insert(std::string(field.name));
  });
  return names;
}

std::set<std::string> required_in(const std::string& definition) {
  std::set<std::string> names;
  for (const auto& name : schema()["$defs"][definition]["required"]) names.insert(name);
  return names;
}

TEST(Schema, RequiredFieldsAreTheReaders) {
  EXPECT_EQ(required_fields<GroupSpec>(), required_in("group"));
  EXPECT_EQ(required_fields<ParamSpec>(), required_in("param"));
  EXPECT_EQ(required_fields<Operation>(), required_in("operation_object"));
  EXPECT_EQ(schema()["required"], json::parse(R"(["schema", "groups"])"));
  EXPECT_EQ(required_fields<Case>(), std::set<std::string>{"groups"});
}

json words_at(const std::string& pointer) { return schema().at(json::json_pointer(pointer)); }

TEST(Schema, WordsAreThoseOfTheNames) {
  EXPECT_EQ(words_at("/$defs/dtype/enum"), json(names<DType>()));
  EXPECT_EQ(words_at("/$defs/param/properties/call/enum"), json(names<CallPath>()));
  EXPECT_EQ(words_at("/$defs/operation_name/enum"), json(names<OpKind>()));
  EXPECT_EQ(words_at("/$defs/batch/properties/values/enum"), json(names<DataKind>()));
  EXPECT_EQ(words_at("/$defs/optimizer/properties/kind/enum"), json(names<OptimizerKind>()));
  EXPECT_EQ(words_at("/$defs/schedule/properties/policy/enum"), json(names<SchedulePolicy>()));
  EXPECT_EQ(words_at("/$defs/schedule/properties/delivery/enum"), json(names<Delivery>()));
  EXPECT_EQ(words_at("/$defs/origin/properties/kind/enum"), json(known_origins()));
  EXPECT_EQ(words_at("/$defs/mesh/properties/dim_names/items/enum"), json(known_dim_names()));
  EXPECT_EQ(words_at("/$defs/environment/properties/target/enum"), json(known_targets()));
  EXPECT_EQ(words_at("/$defs/environment/properties/comm/enum"), json(known_comms()));
  EXPECT_EQ(words_at("/$defs/environment/properties/device/enum"), json(known_devices()));
  json verdicts(expected_verdicts());
  verdicts.insert(verdicts.begin(), "");
  EXPECT_EQ(words_at("/$defs/expect/properties/verdict/enum"), verdicts);
}

TEST(Schema, DefaultsAreThoseOfTheStructs) {
  Case c;
  c.groups = {{.name = "r", .params = {}},
              {.name = "g", .params = {{.name = "w", .shape = {1}, .tied_to = {}}}}};
  const json written = json::parse(full_text(c));
  const auto expect_defaults = [](const json& value, const json& definition) {
    for (const auto& [key, property] : definition["properties"].items()) {
      if (!property.contains("default")) continue;
      EXPECT_EQ(value[key], property["default"]) << key;
    }
  };
  const json& defs = schema()["$defs"];
  for (const char* part :
       {"origin", "mesh", "batch", "optimizer", "schedule", "environment", "expect"}) {
    expect_defaults(written[part], defs[part]);
  }
  expect_defaults(written["groups"][0], defs["group"]);
  expect_defaults(written["groups"][0]["mixed_precision"], defs["mixed_precision"]);
  expect_defaults(written["groups"][1]["params"][0], defs["param"]);
  EXPECT_EQ(written["steps"], schema()["properties"]["steps"]["default"]);
  EXPECT_EQ(written["seed"], schema()["properties"]["seed"]["default"]);
}

TEST(Schema, LimitsAreThoseOfValidate) {
  const auto limit = [](const std::string& pointer) {
    return schema().at(json::json_pointer(pointer)).get<std::int64_t>();
  };
  EXPECT_EQ(limit("/properties/groups/maxItems"), kMaxGroups);
  EXPECT_EQ(limit("/properties/steps/maximum"), kMaxSteps);
  EXPECT_EQ(limit("/properties/operations/maxItems"), kMaxOperations);
  EXPECT_EQ(limit("/properties/compare_meshes/maxItems"), kMaxCompareMeshes);
  EXPECT_EQ(limit("/$defs/mesh/properties/shape/items/maximum"), kMaxMeshSize);
  EXPECT_EQ(limit("/$defs/group/properties/params/maxItems"), kMaxParams);
  EXPECT_EQ(limit("/$defs/param/properties/shape/maxItems"), kMaxDims);
  EXPECT_EQ(limit("/$defs/param/properties/shape/items/maximum"), kMaxDimSize);
  EXPECT_EQ(limit("/$defs/batch/properties/tokens_per_expert/maximum"), kMaxTokensPerExpert);
  EXPECT_EQ(limit("/$defs/batch/properties/top_k/maximum"), kMaxTopK);
  EXPECT_EQ(limit("/$defs/batch/properties/tokens_by_rank/items/maximum"), kMaxTokenFactor);
  EXPECT_EQ(limit("/$defs/optimizer/properties/lr_log2/minimum"), kMinLrLog2);
  EXPECT_EQ(limit("/$defs/optimizer/properties/lr_log2/maximum"), kMaxLrLog2);
  EXPECT_EQ(limit("/$defs/schedule/properties/change_points/maximum"), kMaxChangePoints);
  EXPECT_EQ(limit("/$defs/schedule/properties/delays/items/maximum"), kMaxDelay);
}

}  // namespace
}  // namespace shardfuzz
