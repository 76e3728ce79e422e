#include "harness/trace/trace.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "harness/trace/recorder.h"

namespace shardfuzz {
namespace {

using Json = nlohmann::json;

TensorNote note(const std::string& dtype) {
  return {.shape = {1, 16, 32}, .dtype = dtype, .bytes = 1024, .digest = "00ff"};
}

Call call_of(int rank) {
  return {.rank = rank,
          .kind = "reduce_scatter",
          .dtype = "BFloat16",
          .count = 512,
          .bytes = 1024,
          .root = 1,
          .reduce = "avg"};
}

std::vector<Payload> first_kinds() {
  return {
      Sharded{.group = "experts",
              .param = "w",
              .local_shape = {1, 2},
              .padded_shape = {2, 2},
              .local_type = "Wrapper",
              .dtype = "float32",
              .expected_type = "Other",
              .storage_bytes = 16,
              .requires_grad = false},
      PreAllGather{.group = "experts",
                   .param = "w",
                   .hook_arguments = 5,
                   .from_post_forward = true,
                   .inputs = {note("bfloat16")},
                   .declared = {note("float32"), note("uint8")},
                   .rows_digest = "a",
                   .local_digest = "b"},
      Launch{.process_group = "shard",
             .members = {0, 1},
             .sequence = 3,
             .call = call_of(1),
             .digest = "c"},
      Delivered{.process_group = "shard",
                .members = {0, 1},
                .sequence = 3,
                .kind = "all_gather",
                .digest = "d"},
      Mismatch{.process_group = "shard",
               .members = {0, 1},
               .sequence = 3,
               .calls = {call_of(0), call_of(1)}},
      Unsharded{.group = "experts",
                .param = "w",
                .shape = {3, 4},
                .stride = {4, 1},
                .dtype = "bfloat16",
                .type = "Wrapper",
                .expected_type = "Other",
                .storage_bytes = 32,
                .needed_bytes = 24,
                .requires_grad = false,
                .slots = {"e", "f"},
                .tags = 2},
  };
}

std::vector<Payload> other_kinds() {
  return {
      Storage{.group = "experts",
              .param = "w",
              .at = "forward",
              .unsharded_bytes = 8,
              .post_forward_bytes = 4,
              .gradient_bytes = 2},
      FreedRead{.op = "aten::mm", .storage_bytes = 1, .needed_bytes = 2, .shape = {3}},
      Gradient{.group = "experts",
               .param = "w",
               .present = true,
               .type = "Tensor",
               .dtype = "float32",
               .shape = {3},
               .digest = "g"},
      Stepped{.group = "experts",
              .param = "w",
              .optimizer_owns_it = false,
              .type = "Wrapper",
              .dtype = "float32",
              .requires_grad = false,
              .digest = "h"},
      Reference{.group = "experts",
                .param = "w",
                .what = "gradient",
                .exact = true,
                .missing = true,
                .differing = 5,
                .first = 6,
                .got = 1.25,
                .want = -2.5,
                .headroom = 0.1},
      Loaded{.group = "experts", .param = "w", .same_bytes = false, .same_type = false},
      Final{.group = "experts", .param = "w", .digest = "i", .exact = true, .sample = {0.1, -7}},
      Raised{.type = "RuntimeError",
             .message = "line 1\nsays \"no\" to \xC3\xA9",
             .where = "a.py:f",
             .group = "experts",
             .param = "w",
             .by_harness = true},
      Finished{},
      Stuck{.step_bound = true, .ranks = {{0, "waits", "all_gather 3"}, {1, "raised", ""}}},
      Memory{.buffers =
                 {{.role = "reduce_input", .process_group = "shard", .sequence = 4, .bytes = 64}},
             .peak_bytes = 128},
  };
}

// One event of every kind, in the order of Payload; no field at its default.
std::vector<Payload> one_of_each() {
  std::vector<Payload> all = first_kinds();
  for (const Payload& payload : other_kinds()) all.push_back(payload);
  return all;
}

Trace full_trace() {
  Trace trace{.world_size = 2,
              .mesh = {1, 2},
              .torch_version = "2.11.0",
              .torchao_version = "0.18.0",
              .invalid = "why"};
  for (Payload& payload : one_of_each()) {
    const auto index = static_cast<std::int64_t>(trace.events.size());
    trace.events.push_back({.index = 2 * index,
                            .rank = static_cast<int>(index % 3) - 1,
                            .step = 1,
                            .operation = 4,
                            .phase = "backward",
                            .payload = std::move(payload)});
  }
  return trace;
}

TEST(Trace, EveryKindOfEventIsReadBackAsItWasWritten) {
  const Trace trace = full_trace();
  std::set<std::size_t> kinds;
  for (const Event& event : trace.events) kinds.insert(event.payload.index());
  ASSERT_EQ(kinds.size(), std::variant_size_v<Payload>) << "this test misses a kind";
  const Result<Trace> read = parse_trace(trace_text(trace));
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_EQ(*read, trace);
  EXPECT_EQ(trace_digest(*read), trace_digest(trace));
}

TEST(Trace, TextIsOneLine) {
  const Trace trace = full_trace();
  EXPECT_EQ(trace_text(trace).find('\n'), std::string::npos);
  for (const Event& event : trace.events)
    EXPECT_EQ(event_text(event).find('\n'), std::string::npos);
}

TEST(Trace, EventsComeBackInTheOrderOfTheirIndex) {
  Json json = Json::parse(trace_text(full_trace()));
  std::reverse(json["events"].begin(), json["events"].end());
  const Result<Trace> read = parse_trace(json.dump());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, full_trace());
}

TEST(Trace, TextThatIsNoUtf8IsStillWritten) {
  Trace trace = full_trace();
  trace.events[0].payload = Raised{.type = "E", .message = "\xFF!"};
  const Result<Trace> read = parse_trace(trace_text(trace));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(std::get<Raised>(read->events[0].payload).message, "\xEF\xBF\xBD!");
}

// ---- refusals
// -------------------------------------------------------------------------------------

std::string error_of(const Json& json) {
  const Result<Trace> read = parse_trace(json.dump());
  return read.ok() ? "accepted" : read.error().text();
}

TEST(Trace, AMissingFieldOfAnyKindIsRefusedWithThePlaceOfTheEventAndTheField) {
  const Json json = Json::parse(trace_text(full_trace()));
  int refused = 0;
  for (std::size_t i = 0; i < json["events"].size(); ++i) {
    for (const auto& field : json["events"][i]["data"].items()) {
      Json without = json;
      without["events"][i]["data"].erase(field.key());
      const std::string error = error_of(without);
      EXPECT_EQ(error.find("trace: /events/" + std::to_string(i) + ": "), 0U) << error;
      EXPECT_NE(error.find("'" + field.key() + "'"), std::string::npos) << error;
      ++refused;
    }
    for (const char* field : {"i", "rank", "step", "op", "phase", "kind", "data"}) {
      Json without = json;
      without["events"][i].erase(field);
      EXPECT_NE(error_of(without).find(std::string("'") + field + "'"), std::string::npos) << field;
    }
  }
  EXPECT_EQ(refused, 96)
      << "fields of all kinds: 9 + 8 + 5 + 5 + 4 + 12 + 6 + 4 + 7 + 7 + 10 + 4 + 5 + 6 + 2 + 2";
}

TEST(Trace, AMissingFieldOfTheTraceIsRefused) {
  const Json json = Json::parse(trace_text(full_trace()));
  for (const auto& field : json.items()) {
    Json without = json;
    without.erase(field.key());
    const std::string error = error_of(without);
    EXPECT_EQ(error.find("trace: "), 0U) << error;
    EXPECT_NE(error.find("'" + field.key() + "'"), std::string::npos) << error;
  }
}

TEST(Trace, WhatIsNoEventIsRefusedWithItsPlace) {
  const Json json = Json::parse(trace_text(full_trace()));
  const auto after = [&](const std::string& pointer, const Json& value) {
    Json changed = json;
    changed[Json::json_pointer(pointer)] = value;
    return error_of(changed);
  };
  EXPECT_EQ(after("/events/3/kind", "delivery"),
            "trace: /events/3: unknown event kind 'delivery' (report this as a bug)");
  EXPECT_EQ(after("/events/2/rank", 2),
            "trace: /events/2: rank 2 in a world of 2 (report this as a bug)");
  EXPECT_EQ(after("/events/2/rank", -2),
            "trace: /events/2: rank -2 in a world of 2 (report this as a bug)");
  EXPECT_EQ(after("/events/5/data", 7).find("trace: /events/5: "), 0U);
  EXPECT_EQ(after("/events/5/data/tags", "many").find("trace: /events/5: "), 0U);
  EXPECT_EQ(after("/events", Json::object()), "trace: events is no list (report this as a bug)");
  EXPECT_EQ(after("/events", nullptr), "trace: events is no list (report this as a bug)");
  EXPECT_FALSE(parse_trace("").ok());
  EXPECT_FALSE(parse_trace("[]").ok());
  EXPECT_FALSE(parse_trace(trace_text(full_trace()).substr(1)).ok());
}

// ---- digest
// ---------------------------------------------------------------------------------------

// Another value of the same JSON type.
Json other_value(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>() == 1 ? 0 : 1;
  if (value.is_number()) return value.get<double>() + 1;
  if (value.is_string()) return value.get<std::string>() + "x";
  if (value.is_array()) return Json::array();
  return value;
}

TEST(TraceDigest, DependsOnEveryFieldOfEveryEvent) {
  const Trace trace = full_trace();
  const Json json = Json::parse(trace_text(trace));
  const Json flat = json["events"].flatten();
  std::set<std::string> digests{trace_digest(trace)};
  std::size_t changes = 0;
  for (const auto& leaf : flat.items()) {
    if (leaf.key().ends_with("/kind") && leaf.key().find("/data/") == std::string::npos) continue;
    if (leaf.value().is_null() || leaf.value().is_object()) continue;  // Finished has no data
    Json changed = json;
    changed["events"][Json::json_pointer(leaf.key())] = other_value(leaf.value());
    const Result<Trace> read = parse_trace(changed.dump());
    ASSERT_TRUE(read.ok()) << leaf.key() << ": " << read.error().text();
    EXPECT_TRUE(digests.insert(trace_digest(*read)).second) << leaf.key();
    ++changes;
  }
  EXPECT_GT(changes, 150U);
}

TEST(TraceDigest, DependsOnTheOrderAndTheNumberOfEvents) {
  const Trace trace = full_trace();
  Trace swapped = trace;
  std::swap(swapped.events[3].payload, swapped.events[4].payload);
  EXPECT_NE(trace_digest(swapped), trace_digest(trace));
  std::swap(swapped.events[3],
            swapped.events[4]);  // the same events, indices and all, out of order
  EXPECT_NE(trace_digest(swapped), trace_digest(trace));
  Trace shorter = trace;
  shorter.events.pop_back();
  EXPECT_NE(trace_digest(shorter), trace_digest(trace));
  EXPECT_NE(trace_digest(Trace{}), trace_digest(trace));
  EXPECT_EQ(trace_digest(Trace{}).size(), 16U);
}

TEST(TraceDigest, IsFixedForThisFormat) {
  // Stored in files: a change of this value is a new format version.
  Trace trace;
  trace.events.push_back({.index = 0, .rank = 0, .phase = "end", .payload = Finished{}});
  EXPECT_EQ(event_text(trace.events[0]),
            R"({"data":{},"i":0,"kind":"finished","op":-1,"phase":"end","rank":0,"step":-1})");
  EXPECT_EQ(trace_digest(trace), "21674bdc85210d51");
}

TEST(ForEach, VisitsEventsOfOneKindInOrder) {
  Trace trace = full_trace();
  trace.events.push_back({.index = 99, .rank = 1, .payload = Finished{}});
  std::vector<std::int64_t> seen;
  for_each<Finished>(trace,
                     [&](const Event& event, const Finished&) { seen.push_back(event.index); });
  EXPECT_EQ(seen, (std::vector<std::int64_t>{28, 99}));
}

// ---- recorder
// -------------------------------------------------------------------------------------

TEST(Recorder, GivesEachEventTheNextIndexAndThePlaceOfItsRank) {
  Recorder recorder(2);
  recorder.record(0, Finished{});
  recorder.set_place(1, 3, 2, "step");
  recorder.record(1, Finished{});
  EXPECT_EQ(recorder.take_index(), 2) << "an event that is written down elsewhere";
  recorder.record(-1, Stuck{});
  recorder.record(0, Finished{});
  const std::vector<Event> want{
      {.index = 0, .rank = 0, .step = -1, .operation = -1, .phase = "init", .payload = Finished{}},
      {.index = 1, .rank = 1, .step = 3, .operation = 2, .phase = "step", .payload = Finished{}},
      {.index = 3, .rank = -1, .step = -1, .operation = -1, .phase = "", .payload = Stuck{}},
      {.index = 4, .rank = 0, .step = -1, .operation = -1, .phase = "init", .payload = Finished{}}};
  EXPECT_EQ(recorder.events(), want);
}

TEST(RecorderDeathTest, MoreEventsThanTheBoundIsABug) {
  EXPECT_DEATH(
      {
        Recorder recorder(1);
        for (std::int64_t i = 0; i <= kMaxEvents; ++i) (void)recorder.take_index();
      },
      "a run wrote 1000000 events");
}

}  // namespace
}  // namespace shardfuzz
