// Choices: the one source of choices that a case is made from, whoever makes them.
//
// Guarantees: the same source gives the same choices on every machine. Every choice comes down to
// below(); what it returned is recorded, and from_draws(draws()) makes the same choices again. Any
// bytes and any draws are a source: a value is reduced to its range, and behind the end every
// choice is 0, which callers make the plain one (chance() is then false, a pick takes the first).
// So an empty input gives the simplest case, and a mutated one still gives a case.
// What is made may be made in parts: next_part() marks where one ends, and a source of parts gives
// each its own draws, so that more or fewer draws in one part move none of the parts behind it.
// Refuses nothing; an empty range is a broken invariant.
// Use:  Choices choices = Choices::from_seed(7);  if (choices.chance(20)) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "harness/base/check.h"
#include "harness/base/random.h"

namespace shardfuzz {

template <typename T>
struct Weighted {
  int weight;  // 0: never
  T value;
};

class Choices {
 public:
  static Choices from_seed(std::uint64_t seed) { return Choices(Random(seed)); }
  // The bytes must outlive the Choices. A choice takes as few of them as its range needs.
  static Choices from_bytes(std::span<const std::uint8_t> bytes) { return Choices(Bytes{bytes}); }
  static Choices from_draws(std::vector<std::uint32_t> draws) {
    return Choices(Draws{.all = std::move(draws)});
  }
  // Each part ends in zeros without end; so does what lies behind the last one.
  static Choices from_parts(const std::vector<std::vector<std::uint32_t>>& parts) {
    Draws draws;
    for (const auto& part : parts) {
      draws.all.insert(draws.all.end(), part.begin(), part.end());
      draws.part_ends.push_back(draws.all.size());
    }
    return Choices(std::move(draws));
  }

  // A number in [0, bound). bound > 0.
  std::uint32_t below(std::uint32_t bound) {
    SHARDFUZZ_CHECK(bound > 0, "below(0) has no result");
    const std::uint32_t value =
        std::visit([&](auto& source) { return draw_from(source, bound); }, source_);
    draws_.push_back(value);
    return value;
  }

  // A number in [first, last], both included; fewer than 2^32 of them.
  std::int64_t between(std::int64_t first, std::int64_t last) {
    SHARDFUZZ_CHECK(first <= last, "empty range [{}, {}]", first, last);
    return first + below(static_cast<std::uint32_t>(last - first) + 1);
  }

  // True in `percent` of 100 draws; false for the draw 0.
  bool chance(int percent) { return static_cast<int>(below(100)) >= 100 - percent; }

  template <typename T>
  const T& pick(const std::vector<T>& values) {
    SHARDFUZZ_CHECK(!values.empty(), "nothing to pick from");
    return values[below(static_cast<std::uint32_t>(values.size()))];
  }
  template <typename T>
  T pick(std::initializer_list<T> values) {
    SHARDFUZZ_CHECK(values.size() > 0, "nothing to pick from");
    return *(values.begin() + below(static_cast<std::uint32_t>(values.size())));
  }

  // One of the values, each as often as its weight says. Some weight must be above 0.
  template <typename T>
  T weighted(std::initializer_list<Weighted<T>> values) {
    return weighted_of<T>(values);
  }
  template <typename T>
  T weighted(const std::vector<Weighted<T>>& values) {
    return weighted_of<T>(values);
  }

  // The choices from here on belong to the next part.
  void next_part() {
    part_ends_.push_back(draws_.size());
    if (auto* draws = std::get_if<Draws>(&source_)) draws->next_part();
  }

  [[nodiscard]] const std::vector<std::uint32_t>& draws() const { return draws_; }
  // The same, part by part.
  [[nodiscard]] std::vector<std::vector<std::uint32_t>> parts() const {
    std::vector<std::vector<std::uint32_t>> parts;
    auto begin = draws_.begin();
    for (const std::size_t part_end : part_ends_) {
      const auto end = draws_.begin() + static_cast<std::ptrdiff_t>(part_end);
      parts.emplace_back(begin, end);
      begin = end;
    }
    parts.emplace_back(begin, draws_.end());
    return parts;
  }

 private:
  struct Bytes {
    std::span<const std::uint8_t> left;
  };
  struct Draws {
    std::vector<std::uint32_t> all;
    std::vector<std::size_t> part_ends;  // none: one part, wherever next_part() is called
    std::size_t next = 0, part = 0;

    [[nodiscard]] std::size_t end() const {
      return part < part_ends.size() ? part_ends[part] : all.size();
    }
    void next_part() {
      if (part_ends.empty()) return;
      next = end();
      ++part;
    }
  };
  using Source = std::variant<Random, Bytes, Draws>;

  explicit Choices(Source source) : source_(std::move(source)) { draws_.reserve(kUsualDraws); }

  static std::uint32_t draw_from(Random& random, std::uint32_t bound) {
    return static_cast<std::uint32_t>(random.below(bound));
  }
  static std::uint32_t draw_from(Bytes& bytes, std::uint32_t bound) {
    std::uint32_t value = 0;
    for (std::uint32_t rest = bound - 1; rest > 0 && !bytes.left.empty(); rest >>= 8) {
      value = (value << 8) | bytes.left.front();
      bytes.left = bytes.left.subspan(1);
    }
    return value % bound;
  }
  static std::uint32_t draw_from(Draws& draws, std::uint32_t bound) {
    return draws.next < draws.end() ? draws.all[draws.next++] % bound : 0;
  }

  template <typename T, typename Values>
  T weighted_of(const Values& values) {
    int total = 0;
    for (const auto& entry : values) total += entry.weight;
    SHARDFUZZ_CHECK(total > 0, "all {} weights are 0", values.size());
    int left = static_cast<int>(below(static_cast<std::uint32_t>(total)));
    for (const auto& entry : values) {
      if (left < entry.weight) return entry.value;
      left -= entry.weight;
    }
    SHARDFUZZ_CHECK(false, "{} is past the total weight {}", left, total);
  }

  static constexpr std::size_t kUsualDraws = 256;  // saves growing; most cases take fewer
  Source source_;
  std::vector<std::uint32_t> draws_;
  std::vector<std::size_t> part_ends_;
};

}  // namespace shardfuzz
