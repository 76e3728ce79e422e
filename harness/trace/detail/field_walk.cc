#include "harness/trace/detail/field_walk.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "harness/base/check.h"
#include "harness/base/hash.h"
#include "harness/trace/detail/event_fields.h"

namespace shardfuzz {

namespace {

// Shown of a text that differs: enough for a message of PyTorch's around the difference.
constexpr std::size_t kTextLength = 120;
constexpr std::size_t kTextBefore = 40;

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

}  // namespace

std::string quoted(const std::string& text, std::size_t at) {
  std::size_t begin = text.size() <= kTextLength || at <= kTextBefore ? 0 : at - kTextBefore;
  begin = std::min(begin, text.size());
  while (begin > 0 && is_continuation(text[begin])) --begin;
  std::size_t end = std::min(text.size(), begin + kTextLength);
  while (end < text.size() && is_continuation(text[end])) ++end;
  std::string line = begin > 0 ? "..." : "";
  bool plain = !text.empty();
  for (const char c : text.substr(begin, end - begin)) {
    if (c == ' ' || c == ',' || c == '"') plain = false;
    if (static_cast<unsigned char>(c) < ' ') {
      plain = false;
      line += c == '\n' ? "\\n" : fmt::format("\\x{:02x}", c);
    } else {
      line += c;
    }
  }
  if (end < text.size()) line += "...";
  return plain ? line : '"' + line + '"';
}

std::string list_text(const std::vector<int>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

namespace {

std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(int value) { return std::to_string(value); }
std::string text_of(double value) { return fmt::format("{}", value); }
std::string text_of(const std::string& value) { return quoted(value); }
template <typename T>
std::string text_of(const std::vector<T>& values) {
  if constexpr (HasFields<T>) {
    return fmt::format("{} {}", values.size(), values.size() == 1 ? "entry" : "entries");
  } else {
    std::vector<std::string> texts;
    for (const T& value : values) texts.push_back(text_of(value));
    return fmt::format("[{}]", fmt::join(texts, ", "));
  }
}

// One way through two values of one type. What it stands on is path_, from the event down.
class FieldWalk {
 public:
  FieldWalk(const char* kind, double number_bound,
            const std::function<void(const FieldDifference&)>& found)
      : kind_(kind), number_bound_(number_bound), found_(found) {}

  template <HasFields T>
  void walk(const T& left, const T& right) {
    visit_fields(std::type_identity<T>{}, [&](const char* name, auto member) {
      SHARDFUZZ_CHECK(depth_ < path_.size(), "{} lies too deep", name);
      path_[depth_++] = {.name = name};
      walk(left.*member, right.*member);
      --depth_;
    });
  }

  template <typename T>
  void walk(const std::vector<T>& left, const std::vector<T>& right) {
    if constexpr (std::is_integral_v<T>) {
      tell(left == right, left, right);
    } else if (left.size() != right.size()) {
      tell(false, left, right);
    } else {
      double largest = 1;
      if constexpr (std::is_same_v<T, double>) largest = std::max(size_of(left), size_of(right));
      for (std::size_t i = 0; i < left.size(); ++i) {
        path_[depth_ - 1].entry = static_cast<std::int64_t>(i);
        if constexpr (std::is_same_v<T, double>) {
          tell(close(left[i], right[i], largest), left[i], right[i]);
        } else {
          walk(left[i], right[i]);
        }
      }
    }
  }

  void walk(double left, double right) {
    tell(close(left, right, std::max({1.0, std::abs(left), std::abs(right)})), left, right);
  }
  void walk(bool left, bool right) { tell(left == right, left, right); }
  void walk(int left, int right) { tell(left == right, left, right); }
  void walk(std::int64_t left, std::int64_t right) { tell(left == right, left, right); }

  void walk(const std::string& left, const std::string& right) {
    ++compared_;
    if (left == right) return;
    const auto place = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
    const auto at = static_cast<std::size_t>(place.first - left.begin());
    report(quoted(left, at), quoted(right, at));
  }

  [[nodiscard]] std::int64_t compared() const { return compared_; }

 private:
  struct Place {
    const char* name = "";
    std::int64_t entry = -1;  // of a list; -1: the whole
  };

  static double size_of(const std::vector<double>& values) {
    double largest = 1;
    for (const double value : values) largest = std::max(largest, std::abs(value));
    return largest;
  }

  [[nodiscard]] bool close(double left, double right, double largest) const {
    if (std::bit_cast<std::int64_t>(left) == std::bit_cast<std::int64_t>(right)) return true;
    if (std::isnan(left) && std::isnan(right)) return true;
    return number_bound_ > 0 && std::isfinite(largest) &&
           std::abs(left - right) <= number_bound_ * largest;
  }

  template <typename T>
  void tell(bool same, const T& left, const T& right) {
    ++compared_;
    if (!same) report(text_of(left), text_of(right));
  }

  void report(std::string left, std::string right) {
    FieldDifference difference{.name = kind_, .left = std::move(left), .right = std::move(right)};
    for (std::size_t i = 0; i < depth_; ++i) {
      const Place& place = path_[i];
      difference.name += fmt::format(".{}", place.name);
      if (!difference.field.empty()) difference.field += '.';
      difference.field += place.name;
      if (place.entry >= 0) difference.field += fmt::format("[{}]", place.entry);
    }
    found_(difference);
  }

  const char* kind_;
  double number_bound_;
  const std::function<void(const FieldDifference&)>& found_;
  std::array<Place, 4> path_;  // "calls", "dtype"
  std::size_t depth_ = 0;
  std::int64_t compared_ = 0;
};

// Gives each field of a value, however deep, to `take` with its name.
template <typename T, typename Take>
void for_each_field(const T& value, const std::string& name, Take&& take) {
  if constexpr (HasFields<T>) {
    visit_fields(std::type_identity<T>{}, [&](const char* field, auto member) {
      for_each_field(value.*member, fmt::format("{}.{}", name, field), take);
    });
  } else if constexpr (kIsVector<T>) {
    take(name, value.size());
    for (const auto& entry : value) for_each_field(entry, name, take);
  } else {
    take(name, value);
  }
}

std::uint64_t hash_of(const std::string& text) { return hash_bytes(text); }
std::uint64_t hash_of(double number) { return std::bit_cast<std::uint64_t>(number); }
template <typename T>
requires std::is_integral_v<T> std::uint64_t hash_of(T number) {
  return static_cast<std::uint64_t>(number);
}

template <typename T>
void add_names(const std::string& name, std::set<std::string>* names) {
  if constexpr (HasFields<T>) {
    visit_fields(std::type_identity<T>{}, [&]<typename Field>(const char* field, Field T::*) {
      add_names<Field>(fmt::format("{}.{}", name, field), names);
    });
  } else {
    names->insert(name);
    if constexpr (kIsVector<T>) add_names<typename T::value_type>(name, names);
  }
}

}  // namespace

std::int64_t compare_payloads(const Payload& left, const Payload& right, double number_bound,
                              const std::function<void(const FieldDifference&)>& found) {
  SHARDFUZZ_CHECK(left.index() == right.index(), "a {} is compared with a {}", kind_of(left),
                  kind_of(right));
  FieldWalk walk(kind_of(left), number_bound, found);
  std::visit([&]<typename T>(const T& payload) { walk.walk(payload, std::get<T>(right)); }, left);
  return walk.compared();
}

std::uint64_t content_hash(const Payload& payload, const std::set<std::string>& without) {
  const std::string kind = kind_of(payload);
  const std::string sequence = kind + ".sequence";
  std::uint64_t hash = 0;
  std::visit(
      [&](const auto& fields) {
        for_each_field(fields, kind, [&](const std::string& name, const auto& value) {
          if (name != sequence && without.count(name) == 0) hash = combine(hash, hash_of(value));
        });
      },
      payload);
  return hash;
}

namespace {

template <std::size_t... index>
void add_all_names(std::index_sequence<index...>, std::set<std::string>* names) {
  (add_names<std::variant_alternative_t<index, Payload>>(kKinds[index], names), ...);
}

}  // namespace

std::set<std::string> field_names() {
  std::set<std::string> names;
  add_all_names(std::make_index_sequence<std::variant_size_v<Payload>>{}, &names);
  return names;
}

}  // namespace shardfuzz
