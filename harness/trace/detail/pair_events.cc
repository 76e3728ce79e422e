#include "harness/trace/detail/pair_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <compare>
#include <deque>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "harness/base/check.h"
#include "harness/trace/detail/align.h"
#include "harness/trace/detail/event_fields.h"
#include "harness/trace/detail/field_walk.h"

namespace shardfuzz {
namespace {

using Subject = std::array<std::string_view, 3>;

template <typename Kind>
Subject subject_parts(const Kind& payload) {
  if constexpr (requires { payload.what; }) {
    return {payload.group, payload.param, payload.what};
  } else if constexpr (requires { payload.at; }) {
    return {payload.group, payload.param, payload.at};
  } else if constexpr (requires { payload.param; }) {
    return {payload.group, payload.param};
  } else if constexpr (requires { payload.call; }) {
    return {payload.process_group, "", payload.call.kind};
  } else if constexpr (std::is_same_v<Kind, Delivered>) {
    return {payload.process_group, "", payload.kind};
  } else if constexpr (requires { payload.process_group; }) {
    return {payload.process_group};
  } else if constexpr (requires { payload.op; }) {
    return {payload.op};
  } else {
    return {};
  }
}

Subject subject_parts_of(const Event& event) {
  return std::visit([](const auto& payload) { return subject_parts(payload); }, event.payload);
}

auto place_of(const Event& event) {
  return std::tuple(event.step, event.operation, std::string_view(event.phase),
                    event.payload.index());
}
using PlaceAndKind = decltype(place_of(Event{}));

auto key_of(const Event& event) { return std::pair(place_of(event), subject_parts_of(event)); }
using Key = decltype(key_of(Event{}));

// The events of one rank in one trace, by position.
using Positions = std::vector<std::int64_t>;

class RankPairing {
 public:
  RankPairing(const Trace& left, const Positions& left_at, const Trace& right,
              const Positions& right_at, const std::set<std::string>& without)
      : left_(left), right_(right), left_at_(left_at), right_at_(right_at), without_(without) {}

  void pair(std::vector<EventPair>* pairs) {
    if (runs_alike()) {
      for (std::size_t i = 0; i < left_at_.size(); ++i) {
        pairs->push_back({.left = left_at_[i], .right = right_at_[i], .anchor = left_at_[i]});
      }
      return;
    }
    left_mate_.assign(left_at_.size(), kNone);
    right_mate_.assign(right_at_.size(), kNone);
    by_.assign(left_at_.size(), PairedBy::kOrder);
    keep_in_order();
    find_anchors();
    find_moved();
    find_renamed();
    write(pairs);
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  const Event& left_event(std::size_t i) const {
    return left_.events[static_cast<std::size_t>(left_at_[i])];
  }
  const Event& right_event(std::size_t i) const {
    return right_.events[static_cast<std::size_t>(right_at_[i])];
  }

  [[nodiscard]] bool runs_alike() const {
    if (left_at_.size() != right_at_.size()) return false;
    for (std::size_t i = 0; i < left_at_.size(); ++i) {
      if (key_of(left_event(i)) != key_of(right_event(i))) return false;
    }
    return true;
  }

  void keep_in_order() {
    std::map<Key, int> numbers;
    const auto item = [&](const Event& event) {
      const int next = static_cast<int>(numbers.size());
      return AlignItem{.key = numbers.emplace(key_of(event), next).first->second,
                       .content = content_hash(event.payload, without_)};
    };
    std::vector<AlignItem> left, right;
    for (std::size_t i = 0; i < left_at_.size(); ++i) left.push_back(item(left_event(i)));
    for (std::size_t i = 0; i < right_at_.size(); ++i) right.push_back(item(right_event(i)));
    for (const AlignedPair& pair : align(left, right)) join(pair.left, pair.right);
  }

  void join(std::size_t left, std::size_t right) {
    left_mate_[left] = right;
    right_mate_[right] = left;
  }

  // What comes between the same two pairs is in one gap. Called while all pairs are in order.
  void find_anchors() {
    std::size_t gap = 0;
    for (const std::size_t mate : left_mate_) left_gap_.push_back(mate == kNone ? gap : gap++);
    gap = 0;
    for (const std::size_t mate : right_mate_) right_gap_.push_back(mate == kNone ? gap : gap++);
    right_anchor_.assign(right_at_.size(), 0);
    auto anchor = static_cast<std::int64_t>(left_.events.size());
    for (std::size_t i = right_at_.size(); i-- > 0;) {
      if (right_mate_[i] != kNone) anchor = left_at_[right_mate_[i]];
      right_anchor_[i] = anchor;
    }
  }

  // Joins what is left over on both sides and has the same label, in order.
  template <typename LeftLabel, typename RightLabel>
  void join_rest(LeftLabel&& left_label, RightLabel&& right_label, PairedBy by) {
    std::map<decltype(right_label(0)), std::deque<std::size_t>> rest;
    for (std::size_t i = 0; i < right_at_.size(); ++i) {
      if (right_mate_[i] == kNone) rest[right_label(i)].push_back(i);
    }
    for (std::size_t i = 0; i < left_at_.size() && !rest.empty(); ++i) {
      if (left_mate_[i] != kNone) continue;
      const auto found = rest.find(left_label(i));
      if (found == rest.end() || found->second.empty()) continue;
      join(i, found->second.front());
      found->second.pop_front();
      by_[i] = by;
    }
  }

  void find_moved() {
    join_rest([&](std::size_t i) { return key_of(left_event(i)); },
              [&](std::size_t i) { return key_of(right_event(i)); }, PairedBy::kMove);
  }

  void find_renamed() {
    join_rest([&](std::size_t i) { return std::pair(left_gap_[i], place_of(left_event(i))); },
              [&](std::size_t i) { return std::pair(right_gap_[i], place_of(right_event(i))); },
              PairedBy::kRenaming);
  }

  void write(std::vector<EventPair>* pairs) const {
    const std::size_t first = pairs->size();
    for (std::size_t i = 0; i < left_at_.size(); ++i) {
      const std::size_t mate = left_mate_[i];
      pairs->push_back({.left = left_at_[i],
                        .right = mate == kNone ? -1 : right_at_[mate],
                        .anchor = left_at_[i],
                        .by = by_[i]});
    }
    for (std::size_t i = 0; i < right_at_.size(); ++i) {
      if (right_mate_[i] != kNone) continue;
      pairs->push_back({.right = right_at_[i], .anchor = right_anchor_[i]});
    }
    // What the right side has more comes before its anchor, which has a left event.
    const auto order = [](const EventPair& pair) {
      return std::tuple(pair.anchor, pair.left >= 0, pair.right);
    };
    std::sort(pairs->begin() + static_cast<std::ptrdiff_t>(first), pairs->end(),
              [&](const EventPair& a, const EventPair& b) { return order(a) < order(b); });
  }

  const Trace& left_;
  const Trace& right_;
  const Positions& left_at_;
  const Positions& right_at_;
  const std::set<std::string>& without_;
  std::vector<std::size_t> left_mate_, right_mate_;  // in the other rank list
  std::vector<std::size_t> left_gap_, right_gap_;
  std::vector<std::int64_t> right_anchor_;
  std::vector<PairedBy> by_;  // of the left list's pairs
};

// By rank + 1.
std::vector<Positions> positions_by_rank(const Trace& trace, int world_size) {
  std::vector<Positions> lists(static_cast<std::size_t>(world_size) + 1);
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const int rank = trace.events[i].rank;
    SHARDFUZZ_CHECK(rank >= -1 && rank < world_size, "an event of rank {} in a world of {}", rank,
                    world_size);
    lists[static_cast<std::size_t>(rank) + 1].push_back(static_cast<std::int64_t>(i));
  }
  return lists;
}

}  // namespace

std::vector<EventPair> pair_events(const Trace& left, const Trace& right,
                                   const std::set<std::string>& without) {
  const int world_size = std::max(left.world_size, right.world_size);
  const std::vector<Positions> left_at = positions_by_rank(left, world_size);
  const std::vector<Positions> right_at = positions_by_rank(right, world_size);
  std::vector<EventPair> pairs;
  pairs.reserve(std::max(left.events.size(), right.events.size()));
  for (std::size_t i = 0; i < left_at.size(); ++i) {
    RankPairing(left, left_at[i], right, right_at[i], without).pair(&pairs);
  }
  return pairs;
}

std::string subject_of(const Event& event) {
  const auto [owner, param, detail] = subject_parts_of(event);
  std::string text(owner);
  if (!owner.empty() && !param.empty()) text += '.';
  text += param;
  if (!text.empty() && !detail.empty()) text += ' ';
  text += detail;
  return text;
}

std::string description_of(const Event& event) {
  std::string text = kind_of(event.payload);
  if (const std::string subject = subject_of(event); !subject.empty()) text += " " + subject;
  if (const auto* launch = std::get_if<Launch>(&event.payload)) {
    text += fmt::format(" {} of {} bytes", launch->sequence, launch->call.bytes);
  } else if (const auto* delivered = std::get_if<Delivered>(&event.payload)) {
    text += fmt::format(" {}", delivered->sequence);
  } else if (const auto* mismatch = std::get_if<Mismatch>(&event.payload)) {
    text += fmt::format(" {}", mismatch->sequence);
  } else if (const auto* raised = std::get_if<Raised>(&event.payload)) {
    text += fmt::format(" {} {}", raised->type, quoted(raised->message));
  }
  return text;
}

}  // namespace shardfuzz
