#include "harness/trace/trace.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/base/hash.h"
#include "harness/trace/detail/event_fields.h"

namespace shardfuzz {

using Json = nlohmann::json;

namespace {

// Feeds a digest field by field; a text or list also adds its length, so that nothing runs
// together.
class Hasher {
 public:
  void add(std::int64_t value) { digest_ = combine(digest_, static_cast<std::uint64_t>(value)); }
  void add(int value) { add(static_cast<std::int64_t>(value)); }
  void add(bool value) { add(static_cast<std::int64_t>(value)); }
  void add(double value) { add(std::bit_cast<std::int64_t>(value)); }
  void add(const std::string& text) {
    digest_ = combine(digest_, hash_bytes(text));
    add(static_cast<std::int64_t>(text.size()));
  }
  template <typename T>
  void add(const std::vector<T>& values) {
    add(static_cast<std::int64_t>(values.size()));
    for (const T& value : values) add(value);
  }
  template <HasFields T>
  void add(const T& value) {
    visit_fields(std::type_identity<T>{}, [&](const char*, auto member) { add(value.*member); });
  }

  [[nodiscard]] std::uint64_t digest() const { return digest_; }

 private:
  std::uint64_t digest_ = hash_bytes("shardfuzz.trace/1");
};

}  // namespace

// Found by nlohmann::json for every struct of the list, and for vectors of them.
template <HasFields T>
static void to_json(Json& json, const T& value) {
  json = Json::object();
  visit_fields(std::type_identity<T>{},
               [&](const char* name, auto member) { json[name] = value.*member; });
}
template <HasFields T>
static void from_json(const Json& json, T& value) {
  visit_fields(std::type_identity<T>{},
               [&](const char* name, auto member) { json.at(name).get_to(value.*member); });
}

namespace {

template <std::size_t index = 0>
Payload payload_from(const std::string& kind, const Json& data) {
  if constexpr (index < std::variant_size_v<Payload>) {
    if (kind != kKinds[index]) return payload_from<index + 1>(kind, data);
    return data.get<std::variant_alternative_t<index, Payload>>();
  } else {
    throw std::invalid_argument("unknown event kind '" + kind + "'");
  }
}

Json json_of(const Event& event) {
  Json json{{"i", event.index},      {"rank", event.rank},   {"step", event.step},
            {"op", event.operation}, {"phase", event.phase}, {"kind", kind_of(event.payload)}};
  std::visit([&](const auto& payload) { json["data"] = payload; }, event.payload);
  return json;
}

Event event_from(const Json& json, int world_size) {
  Event event;
  event.index = json.at("i").get<std::int64_t>();
  event.rank = json.at("rank").get<int>();
  if (event.rank < -1 || event.rank >= world_size) {
    throw std::invalid_argument("rank " + std::to_string(event.rank) + " in a world of " +
                                std::to_string(world_size));
  }
  event.step = json.at("step").get<int>();
  event.operation = json.at("op").get<int>();
  event.phase = json.at("phase").get<std::string>();
  event.payload = payload_from(json.at("kind").get<std::string>(), json.at("data"));
  return event;
}

}  // namespace

Result<Trace> parse_trace(std::string_view json_text) {
  std::string place = "trace";
  try {
    const Json json = Json::parse(json_text);
    Trace trace;
    trace.world_size = json.at("world_size").get<int>();
    trace.mesh = json.at("mesh").get<std::vector<int>>();
    trace.torch_version = json.at("torch").get<std::string>();
    trace.torchao_version = json.at("torchao").get<std::string>();
    trace.invalid = json.at("invalid").get<std::string>();
    const Json& events = json.at("events");
    if (!events.is_array()) throw std::invalid_argument("events is no list");
    for (std::size_t i = 0; i < events.size(); ++i) {
      place = "trace: /events/" + std::to_string(i);
      trace.events.push_back(event_from(events[i], trace.world_size));
    }
    std::stable_sort(trace.events.begin(), trace.events.end(),
                     [](const Event& a, const Event& b) { return a.index < b.index; });
    return trace;
  } catch (const std::exception& problem) {
    return Error{.what = problem.what(), .where = place, .what_to_do = "report this as a bug"};
  }
}

namespace {

// Text that is no valid UTF-8 (an exception's message) is written with U+FFFD.
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string event_text(const Event& event) { return text_of(json_of(event)); }

std::string trace_text(const Trace& trace) {
  Json json{{"world_size", trace.world_size}, {"mesh", trace.mesh},
            {"torch", trace.torch_version},   {"torchao", trace.torchao_version},
            {"invalid", trace.invalid},       {"events", Json::array()}};
  for (const Event& event : trace.events) json["events"].push_back(json_of(event));
  return text_of(json);
}

std::string trace_digest(const Trace& trace) {
  Hasher hasher;
  for (const Event& event : trace.events) {
    hasher.add(event.index);
    hasher.add(event.rank);
    hasher.add(event.step);
    hasher.add(event.operation);
    hasher.add(event.phase);
    hasher.add(static_cast<int>(event.payload.index()));
    std::visit([&](const auto& payload) { hasher.add(payload); }, event.payload);
  }
  return hex64(hasher.digest());
}

}  // namespace shardfuzz
