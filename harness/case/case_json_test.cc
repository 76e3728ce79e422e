#include "harness/case/case_json.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "harness/base/hash.h"
#include "harness/base/random.h"
#include "harness/case/case_names.h"
#include "harness/case/test_cases.h"

namespace shardfuzz {
namespace {

using nlohmann::json;

Case read(const std::string& text) {
  const Result<Case> result = parse_case(text, "test.json");
  EXPECT_TRUE(result.ok()) << result.error().text() << "\n" << text;
  return result.ok() ? *result : Case{};
}

std::string problem_of(const std::string& text) {
  const Result<Case> result = parse_case(text, "x.json");
  return result.ok() ? "" : result.error().text();
}

void expect_round_trip(const Case& c) {
  const std::string canonical = canonical_text(c);
  EXPECT_EQ(read(canonical), c);
  EXPECT_EQ(read(compact_text(c)), c);
  EXPECT_EQ(read(full_text(c)), c);
  EXPECT_EQ(canonical_text(read(canonical)), canonical);
  EXPECT_EQ(canonical_text(read(full_text(c))), canonical);
  EXPECT_EQ(compact_text(c).find('\n'), std::string::npos);
}

TEST(CaseJson, RoundTripOfTheDefaults) { expect_round_trip(Case{}); }

TEST(CaseJson, RoundTripOfAFullCase) {
  expect_round_trip(good_case());
  expect_round_trip(full_case());
}

TEST(CaseJson, RoundTripOf500RandomCases) {
  Random random(1);
  for (int i = 0; i < 500; ++i) {
    expect_round_trip(random_case(&random));
    if (HasFailure()) FAIL() << "at case " << i;
  }
}

TEST(CaseJson, CanonicalTextIsWrittenForPeople) {
  Case c;
  c.groups = {{.name = "root", .params = {}}};
  c.groups[0].params = {{.name = "w",
                         .shape = {3, 32, 16},
                         .dtype = DType::kFloat8E4M3,
                         .call = CallPath::kGroupedMmNoOffs,
                         .tied_to = {}}};
  c.groups[0].reshard_after_forward = 2;
  c.operations = {{OpKind::kForward, "", "", false},
                  {OpKind::kUnshard, "root", "", true},
                  {OpKind::kGradientSync, "", "", false}};
  c.compare_meshes = {{1}, {2, 2}};
  EXPECT_EQ(canonical_text(c), R"({
  "schema": "shardfuzz.case/1",
  "mesh": {
    "shape": [2]
  },
  "groups": [
    {
      "name": "root",
      "params": [
        {
          "name": "w",
          "shape": [3, 32, 16],
          "dtype": "fp8_e4m3",
          "call": "grouped_mm_no_offs"
        }
      ],
      "reshard_after_forward": 2
    }
  ],
  "operations": [
    "forward",
    {"op": "unshard", "group": "root", "flag": true},
    {"op": "gradient_sync", "flag": false}
  ],
  "compare_meshes": [[1], [2, 2]]
}
)");
}

TEST(CaseJson, LongArraysAreBrokenUp) {
  Case c;
  c.schedule.delays.assign(64, 1000);
  std::istringstream lines(canonical_text(c));
  std::string line;
  while (std::getline(lines, line)) EXPECT_LE(line.size(), 100U);
}

TEST(CaseJson, DefaultOperationsHaveOneSpelling) {
  Case none = good_case();
  none.operations.clear();
  Case written = none;
  written.operations = operations_of(none);
  EXPECT_EQ(canonical_text(written), canonical_text(none));
  EXPECT_EQ(case_hash(written), case_hash(none));
  EXPECT_EQ(read(canonical_text(written)), none);
}

TEST(CaseJson, FullTextNamesEveryField) {
  const json tree = json::parse(full_text(Case{}));
  EXPECT_EQ(tree["operations"].size(), 4U);
  EXPECT_EQ(tree["operations"][0],
            json::parse(R"({"op":"forward","group":"","param":"","flag":false})"));
  EXPECT_EQ(tree["steps"], 3);
  EXPECT_EQ(tree["optimizer"]["kind"], "sgd");
  EXPECT_EQ(json::parse(full_text(full_case())).size(), tree.size());
}

TEST(CaseJson, ReshardAfterForwardTellsItsFourKindsApart) {
  const auto with = [](const std::string& value) {
    return read(R"({"schema":"shardfuzz.case/1","groups":[{"name":"r","reshard_after_forward":)" +
                value + "}]}")
        .groups[0]
        .reshard_after_forward;
  };
  EXPECT_EQ(with("null"), ReshardAfterForward(std::monostate{}));
  EXPECT_EQ(with("true"), ReshardAfterForward(true));
  EXPECT_EQ(with("false"), ReshardAfterForward(false));
  EXPECT_EQ(with("1"), ReshardAfterForward(1));
}

TEST(CaseJson, BytesThatAreNoUtf8AreWrittenAsTheReplacementCharacter) {
  Case c;
  c.predicate =
      "a\xff"
      "b\xc3";
  EXPECT_EQ(read(canonical_text(c)).predicate, "a\ufffdb\ufffd");
}

struct Wrong {
  const char* rest;  // of the object, after the schema
  const char* error;
};

TEST(CaseJson, ErrorsNameThePlaceAndTheWayOut) {
  const Wrong table[] = {
      {R"("grups":[])",
       "x.json: /grups: unknown field (did you mean 'groups'? known: name, origin, mesh, groups, "
       "batch, optimizer, steps, operations, schedule, seed, compare_meshes, environment, expect, "
       "predicate or history)"},
      {R"("name":"a")",
       "x.json: /groups: this required field is missing (add it; repro_cases/schema.json "
       "describes it)"},
      {R"("groups":{})", "x.json: /groups: expected an array, found an object (write an array)"},
      {R"("groups":[{"name":"r","params":[{"name":"w","shape":[1,2.0]}]}])",
       "x.json: /groups/0/params/0/shape/1: expected an integer, found the number 2.0 (write an "
       "integer)"},
      {R"("groups":[],"steps":2147483648)",
       "x.json: /steps: the integer 2147483648 is out of range (write an integer from -2147483648 "
       "to 2147483647)"},
      {R"("groups":[],"seed":-1)",
       "x.json: /seed: the integer -1 is out of range (write an integer from 0 to "
       "18446744073709551615)"},
      {R"("groups":[],"operations":["backwards"])",
       "x.json: /operations/0: unknown name 'backwards' (did you mean 'backward'? known: forward, "
       "backward, step, zero_grad, unshard, wait_unshard, reshard, prefetch_forward, "
       "prefetch_backward, unshard_async_op, gradient_sync, reshard_after_backward, all_reduce, "
       "freeze, unfreeze, save, load or full_tensor)"},
      {R"("groups":[],"seed":1,"se\u0065d":2)",
       "x.json: /seed: the key 'seed' appears twice in one object (keep one of them)"},
      {R"("groups":[],"a/b~c":1)",
       "x.json: /a~1b~0c: unknown field (known: name, origin, mesh, groups, batch, optimizer, "
       "steps, operations, schedule, seed, compare_meshes, environment, expect, predicate or "
       "history)"},
  };
  for (const Wrong& wrong : table) {
    const std::string text = std::string("{\"schema\":\"shardfuzz.case/1\",") + wrong.rest + "}";
    EXPECT_EQ(problem_of(text), wrong.error);
  }
}

TEST(CaseJson, SyntaxErrorsHaveLineAndColumn) {
  EXPECT_EQ(problem_of("{\n  \"schema\": ,\n}").substr(0, 13), "x.json:2:13: ");
  EXPECT_EQ(problem_of("{\"a\": \"\xff\"}").substr(0, 12), "x.json:1:8: ");
  EXPECT_EQ(problem_of("{}\n\n x").substr(0, 12), "x.json:3:2: ");
  EXPECT_EQ(problem_of("{").substr(0, 12), "x.json:1:2: ");
  EXPECT_EQ(problem_of(""),
            "x.json:1:1: empty (a case file is one JSON object; see repro_cases/schema.json)");
}

TEST(CaseJson, NestingIsRefusedBeforeItHurts) {
  const std::string deep(100000, '[');
  const std::string problem = problem_of(deep);
  EXPECT_NE(problem.find("nested deeper than 32 levels"), std::string::npos) << problem;
  EXPECT_EQ(problem_of(std::string(32, '[') + std::string(32, ']')).find("nested"),
            std::string::npos);
}

TEST(CaseHash, DependsOnTheExperimentOnly) {
  const Case base = good_case();
  Case other = base;
  other.name = "another";
  other.origin = {};
  other.expect = {};
  other.predicate = "";
  other.history.clear();
  other.environment.torch = "9";
  other.environment.torchao = "9";
  other.environment.nccl = "9";
  EXPECT_EQ(case_hash(other), case_hash(base));

  const auto differs = [&](auto change) {
    Case changed = base;
    change(changed);
    return case_hash(changed) != case_hash(base);
  };
  EXPECT_TRUE(differs([](Case& c) { c.seed += 1; }));
  EXPECT_TRUE(differs([](Case& c) { c.steps += 1; }));
  EXPECT_TRUE(differs([](Case& c) { c.mesh.shape[0] = 1; }));
  EXPECT_TRUE(differs([](Case& c) { c.groups[1].params[0].shape[0] = 5; }));
  EXPECT_TRUE(differs([](Case& c) { c.groups[1].reshard_after_forward = true; }));
  EXPECT_TRUE(differs([](Case& c) { c.operations.pop_back(); }));
  EXPECT_TRUE(differs([](Case& c) { c.schedule.seed -= 1; }));
  EXPECT_TRUE(differs([](Case& c) { c.environment.device = "cpu"; }));
  EXPECT_TRUE(differs([](Case& c) { c.environment.target = "real"; }));
  EXPECT_TRUE(differs([](Case& c) { c.environment.comm = "sim"; }));
}

// nlohmann::json sorts keys, so this is another field order and other whitespace.
TEST(CaseHash, IsStableUnderFieldOrderAndWhitespace) {
  const Case base = good_case();
  const std::string sorted = json::parse(canonical_text(base)).dump(7);
  ASSERT_NE(sorted.find("\"batch\""), std::string::npos);
  ASSERT_LT(sorted.find("\"batch\""), sorted.find("\"schema\""));
  EXPECT_EQ(case_hash(read(sorted)), case_hash(base));
}

// Part of file names: these values must never change for shardfuzz.case/1.
TEST(CaseHash, ValuesAreFixed) {
  EXPECT_EQ(hex64(case_hash(Case{})), "c63f9e05da6e2373");
  EXPECT_EQ(hex64(case_hash(good_case())), "460ab3e38b23f4e2");
}

class CaseFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(testing::TempDir()) / ("case_file_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }
  [[nodiscard]] std::ptrdiff_t file_count() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  std::filesystem::path folder_;
};

TEST_F(CaseFile, SavesWholeFilesAndReplacesOldOnes) {
  write("a.json", "old");
  ASSERT_TRUE(save_case(good_case(), path("a.json")).ok());
  EXPECT_EQ(file_count(), 1);
  std::ifstream file(path("a.json"));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text, canonical_text(good_case()));
  const auto loaded = load_case(path("a.json"));
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  EXPECT_EQ(*loaded, good_case());
  struct stat info {};
  ASSERT_EQ(::stat(path("a.json").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0644U);
}

TEST_F(CaseFile, ASaveThatFailsLeavesNothingBehind) {
  std::filesystem::create_directories(path("a.json"));
  const Status onto_folder = save_case(good_case(), path("a.json"));
  ASSERT_FALSE(onto_folder.ok());
  EXPECT_EQ(onto_folder.error().where, path("a.json"));
  EXPECT_EQ(file_count(), 1);
  EXPECT_FALSE(save_case(good_case(), path("missing/a.json")).ok());
  Case large = good_case();
  large.predicate.assign(std::size_t{1} << 20, 'x');
  EXPECT_FALSE(save_case(large, path("large.json")).ok());
  EXPECT_EQ(file_count(), 1);
}

TEST_F(CaseFile, RefusesWhatIsNoFileOfItsSize) {
  const auto problem = [](const std::string& where) {
    const auto loaded = load_case(where);
    return loaded.ok() ? "" : loaded.error().text();
  };
  EXPECT_EQ(problem(path("no.json")),
            path("no.json") +
                ": cannot be opened: No such file or directory (give the path of a "
                "case file (.json))");
  EXPECT_EQ(problem(folder_), folder_.string() +
                                  ": is a folder (give the path of a case file "
                                  "(.json))");
  EXPECT_NE(problem(""), "");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_NE(problem(path("pipe")).find("is not a regular file"), std::string::npos);
  write("large.json", canonical_text(good_case()) + std::string(std::size_t{1} << 20, ' '));
  EXPECT_NE(problem(path("large.json")).find("at most 1048576"), std::string::npos);
  write("bad.json", "{\n!");
  EXPECT_EQ(problem(path("bad.json")).substr(0, path("bad.json").size() + 5),
            path("bad.json") + ":2:1:");
}

}  // namespace
}  // namespace shardfuzz
