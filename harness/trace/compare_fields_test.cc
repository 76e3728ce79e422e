// Fields: each is found by its name, may be excepted by it, and is shown.
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/trace/compare.h"
#include "harness/trace/detail/event_fields.h"
#include "harness/trace/detail/field_walk.h"
#include "harness/trace/test_runs.h"

namespace shardfuzz {
namespace {

// ---- every field of every kind
// -------------------------------------------------------------------

void fill(bool& value) { value = true; }
void fill(int& value) { value = 1; }
void fill(std::int64_t& value) { value = 4; }
void fill(double& value) { value = 1.5; }
void fill(std::string& value) { value = "text"; }
template <HasFields T>
void fill(T& value);
template <typename T>
void fill(std::vector<T>& values) {
  values.resize(2);
  for (T& value : values) fill(value);
}
template <HasFields T>
void fill(T& value) {
  visit_fields(std::type_identity<T>{}, [&](const char*, auto member) { fill(value.*member); });
}

void change(bool& value) { value = !value; }
void change(int& value) { value += 1; }
void change(std::int64_t& value) { value += 1; }
void change(double& value) { value += 1; }
void change(std::string& value) { value += "x"; }

// Changes the field number `target`, counted down on the way, and returns its name; "" if there
// are no so many fields.
template <typename T>
std::string change_field(T& value, const std::string& path, int* target) {
  if constexpr (HasFields<T>) {
    std::string changed;
    visit_fields(std::type_identity<T>{}, [&](const char* name, auto member) {
      if (!changed.empty() || *target < 0) return;
      changed = change_field(value.*member, path.empty() ? name : path + "." + name, target);
    });
    return changed;
  } else if constexpr (kIsVector<T>) {
    if ((*target)-- == 0) {
      value.emplace_back();
      return path;
    }
    if constexpr (!std::is_integral_v<typename T::value_type>) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        const std::string changed =
            change_field(value[i], path + "[" + std::to_string(i) + "]", target);
        if (!changed.empty()) return changed;
      }
    } else {
      if ((*target)-- == 0) {
        value[1] += 1;
        return path;
      }
    }
    return "";
  } else {
    if ((*target)-- != 0) return "";
    change(value);
    return path;
  }
}

std::string without_entries(const std::string& field) {
  std::string name;
  bool inside = false;
  for (const char c : field) {
    if (c == '[') inside = true;
    if (!inside) name += c;
    if (c == ']') inside = false;
  }
  return name;
}

template <typename Kind>
Trace run_with(const Kind& payload) {
  Trace trace = small_run();
  const auto middle = static_cast<std::ptrdiff_t>(find<Delivered>(trace, 1, 1));
  Event event{.rank = 1, .step = 0, .operation = 0, .phase = "forward", .payload = payload};
  trace.events.insert(trace.events.begin() + middle, event);
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    trace.events[i].index = static_cast<std::int64_t>(i);
  }
  return trace;
}

// Changes each field of one event and adds the names under which the changes were found.
template <typename Kind>
void expect_each_change_is_found(std::set<std::string>* names) {
  Kind payload;
  fill(payload);
  const Trace trace = run_with(payload);
  for (int number = 0;; ++number) {
    Kind changed = payload;
    int target = number;
    const std::string field = change_field(changed, "", &target);
    if (field.empty()) break;
    const Trace other = run_with(changed);
    const Comparison comparison = compare_traces(trace, other, {});
    ASSERT_EQ(comparison.differences_found, 1)
        << field << ::testing::PrintToString(sentences(comparison));
    const Difference& difference = comparison.differences.front();
    EXPECT_EQ(difference.field, field);
    EXPECT_EQ(difference.name, difference.kind + "." + without_entries(field));
    EXPECT_EQ(difference.left_index, 18) << field;
    EXPECT_EQ(difference.right_index, 18) << field;
    EXPECT_EQ(difference.rank, 1);
    EXPECT_NE(difference.left, difference.right) << field;
    names->insert(difference.name);

    const CompareOptions but_for_it{.exceptions = {{difference.name, "tried out"}}};
    const Comparison excepted = compare_traces(trace, other, but_for_it);
    EXPECT_TRUE(excepted.same()) << field;
    EXPECT_EQ(excepted.exceptions_used.at(difference.name), 1) << field;
  }
}

template <std::size_t... index>
void expect_each_change_is_found_in_all(std::index_sequence<index...>,
                                        std::set<std::string>* names) {
  (expect_each_change_is_found<std::variant_alternative_t<index, Payload>>(names), ...);
}

TEST(Compare, AChangeOfAnyFieldOfAnyKindIsFoundAndNamed) {
  std::set<std::string> names;
  expect_each_change_is_found_in_all(std::make_index_sequence<std::variant_size_v<Payload>>{},
                                     &names);
  EXPECT_EQ(names, field_names());
  EXPECT_EQ(names.size(), 96U - 1 + 2 * 4 + 2 * 7 + 3 + 4)
      << "fields, but a call and with those of two lists of notes, two of calls, one of ranks and "
         "one of buffers";
}

TEST(Compare, AnEventAtAnotherPlaceIsMissingAtBoth) {
  const Trace trace = small_run();
  const std::size_t at = find<Unsharded>(trace, 1, 1);
  const auto changed = [&](auto&& change_it) {
    Trace other = trace;
    change_it(other.events[at]);
    const Comparison comparison = compare_traces(trace, other, {});
    EXPECT_EQ(comparison.events_compared, static_cast<std::int64_t>(trace.events.size()) - 1);
    return sentences(comparison);
  };
  const std::string was = "rank 1, step 0, forward: unsharded experts.w2 is on real only";
  EXPECT_EQ(changed([](Event& e) { e.step = 1; }),
            (Sentences{was, "rank 1, step 1, forward: unsharded experts.w2 is on native only"}));
  EXPECT_EQ(changed([](Event& e) { e.phase = "backward"; }),
            (Sentences{was, "rank 1, step 0, backward: unsharded experts.w2 is on native only"}));
  EXPECT_EQ(changed([](Event& e) { e.operation = 1; }),
            (Sentences{was, "rank 1, step 0, forward: unsharded experts.w2 is on native only"}));
  EXPECT_EQ(changed([](Event& e) { e.rank = 0; }),
            (Sentences{was, "rank 0, step 0, forward: unsharded experts.w2 is on native only"}));
}

// ---- sentences
// -----------------------------------------------------------------------------------

TEST(Compare, ADifferenceIsASentence) {
  const Trace left = small_run();
  Trace right = left;
  const std::size_t at = find<Unsharded>(right, 1);
  get<Unsharded>(&right, at).stride = {512, 1, 32};
  get<Unsharded>(&right, at).slots[1] = "";
  const Comparison comparison = compare_traces(left, right, {});
  EXPECT_EQ(sentences(comparison),
            (Sentences{"rank 1, step 0, forward: unsharded experts.w1 stride is [512, 16, 1] on "
                       "real, [512, 1, 32] on native",
                       "rank 1, step 0, forward: unsharded experts.w1 slots[1] is bb on real, "
                       "\"\" on native"}));
  const Difference& first = comparison.differences.front();
  EXPECT_EQ(first.rank, 1);
  EXPECT_EQ(first.step, 0);
  EXPECT_EQ(first.operation, 0);
  EXPECT_EQ(first.phase, "forward");
  EXPECT_EQ(first.left_index, left.events[at].index);
  EXPECT_EQ(first.right_index, left.events[at].index);
  EXPECT_EQ(first.name, "unsharded.stride");
  EXPECT_EQ(first.kind, "unsharded");
  EXPECT_EQ(first.subject, "experts.w1");
}

TEST(Compare, WhatIsOfNoRankOrNoParameterIsSaidWithoutIt) {
  Trace left = small_run();
  add(&left, -1, Stuck{.ranks = {{.rank = 0, .state = "waits"}}}, {-1, -1, ""});
  Trace right = left;
  get<Stuck>(&right, right.events.size() - 1).ranks[0].state = "done";
  get<Sharded>(&right, 0).requires_grad = false;
  EXPECT_EQ(sentences(compare_traces(left, right, {})),
            (Sentences{"rank 0, init: sharded experts.w1 requires_grad is true on real, false on "
                       "native",
                       "stuck ranks[0].state is waits on real, done on native"}));
}

TEST(Compare, ListsOfDifferentLengthAreOneDifference) {
  Trace left = small_run();
  const std::size_t at = find<PreAllGather>(left, 0);
  get<PreAllGather>(&left, at).inputs.resize(1);
  Trace right = left;
  get<PreAllGather>(&right, at).inputs.resize(2);
  get<Unsharded>(&right, find<Unsharded>(left, 0)).slots = {"aa"};
  EXPECT_EQ(sentences(compare_traces(left, right, {})),
            (Sentences{"rank 0, step 0, forward: pre_all_gather experts.w1 inputs is 1 entry on "
                       "real, 2 entries on native",
                       "rank 0, step 0, forward: unsharded experts.w1 slots is [aa, bb] on real, "
                       "[aa] on native"}));
}

TEST(Compare, LongTextsAreShownAroundTheDifference) {
  Trace left = small_run();
  const std::string long_text(300, 'm');
  add(&left, 0, Raised{.type = "E", .message = long_text + "\n1, \"a\"" + long_text});
  Trace right = left;
  get<Raised>(&right, right.events.size() - 1).message = long_text + "\n2" + long_text;
  const Comparison comparison = compare_traces(left, right, {});
  ASSERT_EQ(comparison.differences_found, 1);
  const Difference& difference = comparison.differences.front();
  const std::string before(39, 'm');
  EXPECT_EQ(difference.left, "\"..." + before + "\\n1, \"a\"" + std::string(74, 'm') + "...\"");
  EXPECT_EQ(difference.right, "\"..." + before + "\\n2" + std::string(79, 'm') + "...\"");
}

TEST(Quoted, KeepsCharactersWholeAndLinesOne) {
  EXPECT_EQ(quoted("Float8Tensor"), "Float8Tensor");
  EXPECT_EQ(quoted(""), "\"\"");
  EXPECT_EQ(quoted("a b"), "\"a b\"");
  EXPECT_EQ(quoted("a\tb"), "\"a\\x09b\"");
  std::string wide;  // 200 characters of two bytes
  for (int i = 0; i < 200; ++i) wide += "\xC3\xA9";
  const std::string shown = quoted("x" + wide, 101);
  EXPECT_EQ(shown.substr(0, 5), "...\xC3\xA9");
  EXPECT_EQ(shown.substr(shown.size() - 5), "\xC3\xA9...");
}

// ---- exceptions and bounds
// -----------------------------------------------------------------------

TEST(Compare, ExceptionsAreCountedWhereTheyWereNeeded) {
  const Trace left = small_run();
  Trace right = left;
  for (int nth = 0; nth < 3; ++nth) {
    get<Unsharded>(&right, find<Unsharded>(right, 1, nth)).type = "Twin";
  }
  erase(&right, find<Finished>(right, 0));
  const CompareOptions options{.exceptions = {{"unsharded.type", "the twin has one type"},
                                              {"finished.missing", "the twin has no end"},
                                              {"raised.message", "the twin has its own words"}}};
  const Comparison comparison = compare_traces(left, right, options);
  EXPECT_TRUE(comparison.same());
  EXPECT_EQ(comparison.exceptions_used,
            (std::map<std::string, std::int64_t>{
                {"unsharded.type", 3}, {"finished.missing", 1}, {"raised.message", 0}}));
}

TEST(Compare, AnExceptionCanBeNarrowedDown) {
  const Trace left = small_run();
  Trace right = left;
  for (int rank = 0; rank < 2; ++rank) {
    for (int nth = 0; nth < 4; ++nth) {
      get<Delivered>(&right, find<Delivered>(right, rank, nth)).digest = "other";
    }
    erase(&right, find<Unsharded>(right, rank, 3));
  }
  const auto second_step = [](const Event& a, const Event& b) {
    return a.step == 1 && b.step == 1;
  };
  const auto of_rank_one = [](const Event& a, const Event& b) { return a.rank + b.rank == 2; };
  const CompareOptions options{
      .exceptions = {{"delivered.digest", "follows a reduction", second_step},
                     {"unsharded.missing", "tried out", of_rank_one}}};
  const Comparison comparison = compare_traces(left, right, options);
  EXPECT_EQ(comparison.exceptions_used, (std::map<std::string, std::int64_t>{
                                            {"delivered.digest", 4}, {"unsharded.missing", 1}}));
  EXPECT_EQ(comparison.differences_found, 5);
  for (const Difference& difference : comparison.differences) {
    const bool digest_in_time = difference.name == "delivered.digest" && difference.step == 0;
    const bool missing_elsewhere = difference.name == "unsharded.missing" && difference.rank == 0;
    EXPECT_TRUE(digest_in_time || missing_elsewhere) << difference.sentence(kSides);
  }
}

TEST(Compare, EventsArePairedByWhatIsNotExcepted) {
  Trace left{.world_size = 1, .mesh = {1}};
  for (int i = 0; i < 6; ++i) add(&left, 0, launch(0, i, 100 + i));
  Trace right = left;
  for (std::size_t i = 0; i < 6; ++i) get<Launch>(&right, i).digest = "other";
  erase(&right, 2);
  const CompareOptions options{.exceptions = {{"launch.digest", "tried out"}}};
  const Comparison comparison = compare_traces(left, right, options);
  EXPECT_EQ(comparison.exceptions_used.at("launch.digest"), 5);
  ASSERT_EQ(comparison.differences_found, 1) << ::testing::PrintToString(sentences(comparison));
  EXPECT_EQ(comparison.differences[0].left_index, 2);
}

TEST(CompareDeathTest, AnExceptionMustNameWhatThereIsAndSayWhy) {
  const CompareOptions misspelt{.exceptions = {{"unsharded.strides", "tried out"}}};
  EXPECT_DEATH((void)compare_traces({}, {}, misspelt), "'unsharded.strides'");
  const CompareOptions silent{.exceptions = {{"unsharded.stride", ""}}};
  EXPECT_DEATH((void)compare_traces({}, {}, silent), "has no reason");
}

// Whether one number may be the other under a bound; they stand in a list with `largest`.
bool close(double left, double right, double bound, double largest = 0) {
  Trace a{.world_size = 1, .mesh = {1}};
  add(&a, -1, Final{.sample = {left, largest}});
  Trace b{.world_size = 1, .mesh = {1}};
  add(&b, -1, Final{.sample = {right, largest}});
  return compare_traces(a, b, {.number_bound = bound}).same();
}

TEST(Compare, NumbersAreComparedBitByBitOrWithinABound) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(close(0.1, 0.1, 0));
  EXPECT_FALSE(close(0.1, 0.1 + 1e-16, 0));
  EXPECT_FALSE(close(0.0, -0.0, 0));
  EXPECT_TRUE(close(0.0, -0.0, 1e-9));
  EXPECT_TRUE(close(0.5, 0.625, 0.125)) << "that share of 1, where all numbers are smaller";
  EXPECT_FALSE(close(0.5, 0.6875, 0.125));
  EXPECT_TRUE(close(0.5, 5.5, 0.125, -40)) << "that share of the largest of the list";
  EXPECT_FALSE(close(0.5, 5.75, 0.125, -40));
  EXPECT_TRUE(close(kNan, -kNan, 0)) << "any two";
  EXPECT_TRUE(close(kInfinity, kInfinity, 0));
  EXPECT_FALSE(close(kNan, 1, 0.5));
  EXPECT_FALSE(close(1, kInfinity, 0.5));
  EXPECT_FALSE(close(-kInfinity, kInfinity, 0.5));
}

}  // namespace
}  // namespace shardfuzz
