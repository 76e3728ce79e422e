#include "harness/trace/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "harness/base/check.h"
#include "harness/trace/detail/event_fields.h"
#include "harness/trace/detail/field_walk.h"
#include "harness/trace/detail/pair_events.h"

namespace shardfuzz {
namespace {

// Sequence numbers after a collective that only one side has: they go on shifted by one, which is
// no difference of its own. By rank and process group.
class SequenceShifts {
 public:
  // Whether the numbers that the two sides give one event tell more than earlier events did.
  bool is_news(int rank, const std::string& process_group, std::int64_t left, std::int64_t right) {
    if (left == right && known_.empty()) return false;
    if (left < 0 || right < 0) {  // without a number on one side: the next ones will be shifted
      if (left != right) forget(rank, process_group);
      return left != right;
    }
    std::optional<std::int64_t>& shift = known_.try_emplace({rank, process_group}, 0).first->second;
    return std::exchange(shift, right - left).value_or(right - left) != right - left;
  }

  // One side has a collective more: whatever comes next is the shift from then on.
  void forget(int rank, const std::string& process_group) {
    known_[{rank, process_group}] = std::nullopt;
  }

 private:
  std::map<std::pair<int, std::string>, std::optional<std::int64_t>> known_;
};

// An event's process group and number, where it has any.
struct Collective {
  const std::string* process_group = nullptr;
  std::int64_t sequence = 0;
};

Collective collective_of(const Event& event) {
  return std::visit(
      [](const auto& payload) -> Collective {
        if constexpr (requires { payload.sequence; }) {
          return {.process_group = &payload.process_group, .sequence = payload.sequence};
        } else {
          return {};
        }
      },
      event.payload);
}

// Step and operation. What is compared after the run comes last in the step that it is about; an
// event without a place of its own (of no single rank) is where the event before it is.
std::pair<int, int> causal_place(const Trace& trace, std::int64_t position) {
  const Event* event = &trace.events[static_cast<std::size_t>(position)];
  while (event->step < 0 && event->phase.empty() && position > 0) {
    event = &trace.events[static_cast<std::size_t>(--position)];
  }
  const bool after = event->operation < 0 && event->step >= 0;
  return {event->step, after ? std::numeric_limits<int>::max() : event->operation};
}

// "at event 31, after unsharded root.r": where an event is among those of its rank.
std::string place_text(const Trace& trace, std::int64_t position) {
  const Event& event = trace.events[static_cast<std::size_t>(position)];
  while (--position >= 0) {
    const Event& before = trace.events[static_cast<std::size_t>(position)];
    if (before.rank == event.rank) {
      return fmt::format("at event {}, after {}", event.index, description_of(before));
    }
  }
  return fmt::format("at event {}, before all others", event.index);
}

class Comparing {
 public:
  Comparing(const Trace& left, const Trace& right, const CompareOptions& options)
      : left_(left), right_(right), options_(options) {
    for (const CompareException& exception : options.exceptions) {
      SHARDFUZZ_CHECK(comparison_names().count(exception.name) != 0,
                      "no event has what the exception '{}' names", exception.name);
      SHARDFUZZ_CHECK(!exception.reason.empty(), "the exception '{}' has no reason",
                      exception.name);
      result_.exceptions_used[exception.name] = 0;
      if (!exception.applies) without_.insert(exception.name);
    }
  }

  Comparison run() {
    compare_worlds();
    if (!result_.same()) return finish();  // two cases, not one: nothing below would mean anything
    const std::vector<EventPair> pairs = pair_events(left_, right_, without_);
    for (const EventPair& pair : pairs) {
      if (pair.left < 0 || pair.right < 0) {
        tell_missing(pair);
      } else {
        compare_pair(pair);
      }
    }
    if (options_.global_order) compare_order(pairs);
    return finish();
  }

 private:
  using CausalKey = std::tuple<int, int, std::int64_t>;  // step, operation, left position
  struct Kept {
    CausalKey key;
    Difference difference;
  };

  const Event& left_event(const EventPair& pair) const {
    return left_.events[static_cast<std::size_t>(pair.left)];
  }
  const Event& right_event(const EventPair& pair) const {
    return right_.events[static_cast<std::size_t>(pair.right)];
  }

  void compare_worlds() {
    if (left_.world_size != right_.world_size) {
      tell_of_trace("world_size", std::to_string(left_.world_size),
                    std::to_string(right_.world_size));
    }
    if (left_.mesh != right_.mesh) {
      tell_of_trace("mesh", list_text(left_.mesh), list_text(right_.mesh));
    }
    if (left_.invalid != right_.invalid) {
      tell_of_trace("invalid", quoted(left_.invalid), quoted(right_.invalid));
    }
  }

  void tell_of_trace(const std::string& field, const std::string& left, const std::string& right) {
    const std::string name = "trace." + field;
    if (is_excepted(name, nullptr, nullptr)) return;
    Difference difference{.name = name, .kind = "trace", .field = field};
    difference.left = left;
    difference.right = right;
    keep({-1, -1, -1}, std::move(difference));
  }

  void compare_pair(const EventPair& pair) {
    const Event& left = left_event(pair);
    const Event& right = right_event(pair);
    const Collective collective = collective_of(left);
    const bool same_sequence = collective.process_group != nullptr &&
                               !shifts_.is_news(left.rank, *collective.process_group,
                                                collective.sequence, collective_of(right).sequence);
    ++result_.events_compared;
    const auto found = [&](const FieldDifference& field) {
      if (same_sequence && field.field == "sequence") return;
      tell(pair, field);
    };
    result_.fields_compared +=
        compare_payloads(left.payload, right.payload, options_.number_bound, std::ref(found));
    if (pair.by == PairedBy::kMove) {
      tell(pair, {.name = fmt::format("{}.order", kind_of(left.payload)),
                  .field = "order",
                  .left = place_text(left_, pair.left),
                  .right = place_text(right_, pair.right)});
    }
  }

  void tell_missing(const EventPair& pair) {
    const Event& event = pair.left < 0 ? right_event(pair) : left_event(pair);
    const auto* launch = std::get_if<Launch>(&event.payload);
    if (launch != nullptr && launch->sequence >= 0) {
      shifts_.forget(event.rank, launch->process_group);
    }
    tell(pair, {.name = fmt::format("{}.missing", kind_of(event.payload)),
                .field = "missing",
                .left = pair.left < 0 ? "" : description_of(event),
                .right = pair.left < 0 ? description_of(event) : ""});
  }

  // The events that both sides have, in each side's order: the first place at which they part.
  // What comes after it follows from it.
  void compare_order(const std::vector<EventPair>& pairs) {
    std::vector<std::int64_t> mates(left_.events.size(), -1);  // right positions, by left ones
    for (const EventPair& pair : pairs) {
      if (pair.left < 0 || pair.by != PairedBy::kOrder) continue;
      mates[static_cast<std::size_t>(pair.left)] = pair.right;
    }
    std::vector<std::int64_t> in_order = mates;
    std::erase(in_order, -1);
    if (std::is_sorted(in_order.begin(), in_order.end())) return;
    std::sort(in_order.begin(), in_order.end());
    auto next = in_order.begin();
    for (std::size_t i = 0; i < mates.size(); ++i) {
      if (mates[i] < 0 || mates[i] == *next++) continue;
      const auto position = static_cast<std::int64_t>(i);
      tell_order({.left = position, .right = *std::prev(next), .anchor = position});
      return;
    }
  }

  void tell_order(const EventPair& parted) {
    const auto text = [](const Event& event) {
      return fmt::format("rank {} {} (event {})", event.rank, description_of(event), event.index);
    };
    tell(parted, {.name = "trace.order",
                  .field = "order",
                  .left = text(left_event(parted)),
                  .right = text(right_event(parted))});
  }

  void tell(const EventPair& pair, const FieldDifference& field) {
    const Event* right = pair.right < 0 ? &left_event(pair) : &right_event(pair);
    const Event* left = pair.left < 0 ? right : &left_event(pair);
    if (is_excepted(field.name, left, right)) return;
    const auto [step, operation] =
        pair.left < 0 ? causal_place(right_, pair.right) : causal_place(left_, pair.left);
    const bool of_trace = field.name.starts_with("trace.");
    keep({step, operation, pair.anchor}, {.rank = left->rank,
                                          .step = left->step,
                                          .operation = left->operation,
                                          .phase = left->phase,
                                          .left_index = pair.left < 0 ? -1 : left->index,
                                          .right_index = pair.right < 0 ? -1 : right->index,
                                          .name = field.name,
                                          .kind = of_trace ? "trace" : kind_of(left->payload),
                                          .subject = of_trace ? "" : subject_of(*left),
                                          .field = field.field,
                                          .left = field.left,
                                          .right = field.right});
  }

  bool is_excepted(const std::string& name, const Event* left, const Event* right) {
    for (const CompareException& exception : options_.exceptions) {
      if (exception.name != name) continue;
      if (exception.applies && left != nullptr && !exception.applies(*left, *right)) continue;
      ++result_.exceptions_used[name];
      return true;
    }
    return false;
  }

  // Keeps the first few of each rank: pairs come in the rank's order, which is not quite causal.
  void keep(const CausalKey& key, Difference difference) {
    ++result_.differences_found;
    std::vector<Kept>& kept = kept_[difference.rank];
    const auto at = std::upper_bound(kept.begin(), kept.end(), key,
                                     [](const CausalKey& a, const Kept& b) { return a < b.key; });
    kept.insert(at, {key, std::move(difference)});
    if (kept.size() > kMaxDifferencesPerRank) kept.pop_back();
  }

  Comparison finish() {
    std::vector<Kept> all;
    for (auto& [rank, kept] : kept_) {
      for (Kept& one : kept) all.push_back(std::move(one));
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Kept& a, const Kept& b) { return a.key < b.key; });
    if (all.size() > kMaxDifferences) all.resize(kMaxDifferences);
    for (Kept& one : all) result_.differences.push_back(std::move(one.difference));
    return std::move(result_);
  }

  const Trace& left_;
  const Trace& right_;
  const CompareOptions& options_;
  std::set<std::string> without_;  // excepted everywhere
  SequenceShifts shifts_;
  std::map<int, std::vector<Kept>> kept_;  // by rank, each in causal order
  Comparison result_;
};

}  // namespace

Comparison compare_traces(const Trace& left, const Trace& right, const CompareOptions& options) {
  return Comparing(left, right, options).run();
}

const std::set<std::string>& comparison_names() {
  static const std::set<std::string> kNames = [] {
    std::set<std::string> names = field_names();
    for (const char* kind : kKinds) {
      names.insert(fmt::format("{}.missing", kind));
      names.insert(fmt::format("{}.order", kind));
    }
    for (const char* field : {"order", "world_size", "mesh", "invalid"}) {
      names.insert(fmt::format("trace.{}", field));
    }
    return names;
  }();
  return kNames;
}

std::string Difference::sentence(const Sides& sides) const {
  std::string where;
  const auto add = [&](const std::string& part) { where += where.empty() ? part : ", " + part; };
  if (rank >= 0) add(fmt::format("rank {}", rank));
  if (step >= 0) add(fmt::format("step {}", step));
  if (!phase.empty()) add(phase);
  if (!where.empty()) where += ": ";
  if (field == "missing") {
    return fmt::format("{}{} is on {} only", where, left.empty() ? right : left,
                       left.empty() ? sides.right : sides.left);
  }
  std::string what = subject.empty() ? kind : kind + " " + subject;
  if (name == "trace.order") {
    what = "the order of the ranks differs: next is";
  } else if (kind == "trace") {
    what = field + " is";
  } else {
    what += field == "order" ? " comes" : " " + field + " is";
  }
  return fmt::format("{}{} {} on {}, {} on {}", where, what, left, sides.left, right, sides.right);
}

}  // namespace shardfuzz
