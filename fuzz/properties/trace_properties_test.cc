// Laws of traces (harness/trace): any trace is read back as it was written, and a change of any
// field is seen by the text, by the digest and by the comparison.
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fuzz/properties/property.h"
#include "harness/trace/compare.h"
#include "harness/trace/detail/event_fields.h"
#include "harness/trace/trace.h"

namespace shardfuzz {
namespace {

// Fills any field of any event.
class Filler {
 public:
  explicit Filler(Random* random) : random_(random) {}

  void fill(bool& value) { value = random_->chance(50); }
  void fill(int& value) { value = static_cast<int>(random_->next()); }
  void fill(std::int64_t& value) {
    value = static_cast<std::int64_t>(random_->next());
    if (random_->chance(60)) value %= 100;
  }
  // Finite: JSON has no other, and the writers of traces send none.
  void fill(double& value) {
    static constexpr double kValues[] = {0.0,
                                         -0.0,
                                         1.0,
                                         0.1,
                                         -1e300,
                                         std::numeric_limits<double>::denorm_min(),
                                         std::numeric_limits<double>::max(),
                                         std::numeric_limits<double>::epsilon()};
    value = kValues[random_->below(std::size(kValues))];
    if (random_->chance(50)) value = std::ldexp(static_cast<double>(random_->next()), -70);
  }
  void fill(std::string& value) {
    static const std::vector<std::string> kPieces{
        "w",    "root", " ",  "\"",     "\\",     "\n\t\r",     std::string("\0", 1),
        "\x7f", "/~1",  "</", "\u00e9", "\u4e2d", "\U0001f600", "1e5"};
    value.clear();
    for (std::uint64_t i = random_->below(5); i > 0; --i) {
      value += kPieces[random_->below(kPieces.size())];
    }
  }
  template <typename T>
  void fill(std::vector<T>& values) {
    values.resize(random_->below(4));
    for (T& value : values) fill(value);
  }
  template <HasFields T>
  void fill(T& value) {
    visit_fields(std::type_identity<T>{}, [&](const char*, auto member) { fill(value.*member); });
  }

  template <std::size_t kind = 0>
  Payload payload(std::size_t wanted) {
    if constexpr (kind < std::variant_size_v<Payload>) {
      if (kind != wanted) return payload<kind + 1>(wanted);
      std::variant_alternative_t<kind, Payload> filled;
      fill(filled);
      return filled;
    } else {
      return Finished{};
    }
  }

 private:
  Random* random_;
};

Event any_event(Random* random, int world_size) {
  Filler filler(random);
  Event event;
  event.rank = static_cast<int>(random->between(-1, world_size - 1));
  event.step = static_cast<int>(random->between(-1, 3));
  event.operation = static_cast<int>(random->between(-1, 3));
  filler.fill(event.phase);
  event.payload = filler.payload(random->below(std::variant_size_v<Payload>));
  return event;
}

Trace any_trace(Random* random) {
  Filler filler(random);
  Trace trace{.world_size = static_cast<int>(random->between(1, 4))};
  filler.fill(trace.mesh);
  filler.fill(trace.torch_version);
  filler.fill(trace.torchao_version);
  filler.fill(trace.invalid);
  std::int64_t index = 0;
  for (std::uint64_t i = random->below(20); i > 0; --i) {
    trace.events.push_back(any_event(random, trace.world_size));
    trace.events.back().index = index += random->between(1, 3);
  }
  return trace;
}

Trace read_back(const std::string& text) {
  const Result<Trace> read = parse_trace(text);
  if (!read) RC_FAIL(read.error().text() + "\n" + text);
  return *read;
}

RC_GTEST_PROP(Trace, AnyTraceIsReadBackAsItWasWritten, ()) {
  Random random(any_seed());
  const Trace trace = any_trace(&random);
  const std::string text = trace_text(trace);
  RC_ASSERT(text.find('\n') == std::string::npos);
  const Trace read = read_back(text);
  RC_ASSERT(read == trace);
  RC_ASSERT(trace_text(read) == text);
  RC_ASSERT(trace_digest(read) == trace_digest(trace));
  RC_ASSERT(compare_traces(trace, read, {}).same());
}

// Bytes of an exception's text may be anything; once written they have one form.
RC_GTEST_PROP(Trace, TextThatIsNoUtf8HasOneForm, ()) {
  Random random(any_seed());
  Trace trace{.world_size = 1};
  std::string bytes(random.below(30), '\0');
  for (char& c : bytes) c = static_cast<char>(random.next());
  trace.events.push_back({.rank = 0, .phase = bytes, .payload = Raised{.message = bytes}});
  const Trace read = read_back(trace_text(trace));
  RC_ASSERT(trace_text(read) == trace_text(trace));
  RC_ASSERT(read_back(trace_text(read)) == read);
}

// Changes one value of an event, the nth, by as little as can be: so one that is not looked at
// shows.
class OneChange {
 public:
  explicit OneChange(std::size_t at) : at_(at) {}

  void visit(bool& value) {
    if (is_hit()) value = !value;
  }
  void visit(int& value) {
    if (is_hit()) value ^= 1;
  }
  void visit(std::int64_t& value) {
    if (is_hit()) value ^= 1;
  }
  void visit(double& value) {
    if (is_hit()) value = value == 0 ? 1 : std::nextafter(value, 0.0);
  }
  void visit(std::string& value) {
    if (is_hit()) value += 'x';
  }
  template <typename T>
  void visit(std::vector<T>& values) {
    if (is_hit()) values.emplace_back();
    for (T& value : values) visit(value);
  }
  template <HasFields T>
  void visit(T& value) {
    visit_fields(std::type_identity<T>{}, [&](const char*, auto member) { visit(value.*member); });
  }
  void visit(Event& event) {
    visit(event.step);
    visit(event.operation);
    visit(event.phase);
    std::visit([this](auto& payload) { visit(payload); }, event.payload);
  }

  [[nodiscard]] std::size_t visited() const { return visited_; }

 private:
  bool is_hit() { return visited_++ == at_; }

  std::size_t at_, visited_ = 0;
};

std::size_t values_of(Event event) {
  OneChange none(std::numeric_limits<std::size_t>::max());
  none.visit(event);
  return none.visited();
}

RC_GTEST_PROP(Trace, OneOtherValueIsSeenByTheTextTheDigestAndTheComparison, ()) {
  Random random(any_seed());
  const Trace trace = any_trace(&random);
  RC_PRE(!trace.events.empty());
  Trace other = trace;
  Event& event = other.events[random.below(other.events.size())];
  OneChange(random.below(values_of(event))).visit(event);
  RC_LOG() << event_text(event);
  RC_ASSERT(trace_text(other) != trace_text(trace));
  RC_ASSERT(trace_digest(other) != trace_digest(trace));
  RC_ASSERT(!compare_traces(trace, other, {}).same());
  RC_ASSERT(!compare_traces(other, trace, {}).same());
}

RC_GTEST_PROP(Trace, AnotherEventIsSeenByTheTextTheDigestAndTheComparison, ()) {
  Random random(any_seed());
  const Trace trace = any_trace(&random);
  RC_PRE(!trace.events.empty());
  Trace other = trace;
  Event& event = other.events[random.below(other.events.size())];
  event.rank = static_cast<int>(random.between(-1, trace.world_size - 1));
  event.payload = Filler(&random).payload(random.below(std::variant_size_v<Payload>));
  RC_PRE(!(other == trace));
  RC_ASSERT(trace_text(other) != trace_text(trace));
  RC_ASSERT(trace_digest(other) != trace_digest(trace));
  RC_ASSERT(!compare_traces(trace, other, {}).same());
}

// The comparison looks at the order of events, the digest at their numbers too.
RC_GTEST_PROP(Trace, AnotherNumberOfAnEventIsSeenByTheDigestOnly, ()) {
  Random random(any_seed());
  const Trace trace = any_trace(&random);
  RC_PRE(!trace.events.empty());
  Trace other = trace;
  ++other.events.back().index;
  RC_ASSERT(trace_digest(other) != trace_digest(trace));
  RC_ASSERT(compare_traces(trace, other, {}).same());
}

RC_GTEST_PROP(Trace, ALostEventIsSeenByTheDigestAndTheComparison, ()) {
  Random random(any_seed());
  const Trace trace = any_trace(&random);
  RC_PRE(!trace.events.empty());
  Trace shorter = trace;
  shorter.events.erase(shorter.events.begin() +
                       static_cast<std::ptrdiff_t>(random.below(trace.events.size())));
  RC_ASSERT(trace_digest(shorter) != trace_digest(trace));
  RC_ASSERT(compare_traces(trace, shorter, {}).differences_found > 0);
  RC_ASSERT(compare_traces(shorter, trace, {}).differences_found > 0);
}

}  // namespace
}  // namespace shardfuzz
