#include "harness/trace/trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/base/hash.h"

namespace shardfuzz {

using Json = nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TensorNote, shape, dtype, bytes, digest)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Sharded, group, param, local_shape, padded_shape, local_type,
                                   dtype, expected_type, storage_bytes, requires_grad)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PreAllGather, group, param, hook_arguments, from_post_forward,
                                   inputs, declared, rows_digest, local_digest)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Call, rank, kind, dtype, count, bytes, root, reduce)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Launch, process_group, members, sequence, call, digest)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Delivered, process_group, members, sequence, kind, digest)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Mismatch, process_group, members, sequence, calls)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Unsharded, group, param, shape, stride, dtype, type,
                                   expected_type, storage_bytes, needed_bytes, requires_grad, slots,
                                   tags)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Storage, group, param, at, unsharded_bytes, post_forward_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FreedRead, op, storage_bytes, needed_bytes, shape)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Gradient, group, param, present, type, dtype, shape, digest)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Stepped, group, param, optimizer_owns_it, type, dtype,
                                   requires_grad, digest)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Reference, group, param, what, exact, missing, differing, first,
                                   got, want, headroom)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Loaded, group, param, same_bytes, same_type)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Final, group, param, digest, exact, sample)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Raised, type, message, where, group, param, by_harness)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Stuck::Rank, rank, state, waits_for)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Stuck, step_bound, ranks)

namespace {

// Names by position in Payload.
constexpr const char* kKinds[] = {"sharded",  "pre_all_gather", "launch",    "delivered",
                                  "mismatch", "unsharded",      "storage",   "freed_read",
                                  "gradient", "stepped",        "reference", "loaded",
                                  "final",    "raised",         "finished",  "stuck"};
static_assert(std::size(kKinds) == std::variant_size_v<Payload>);

template <std::size_t index = 0>
Payload payload_from(const std::string& kind, const Json& data) {
  if constexpr (index < std::variant_size_v<Payload>) {
    if (kind != kKinds[index]) return payload_from<index + 1>(kind, data);
    using Kind = std::variant_alternative_t<index, Payload>;
    if constexpr (std::is_same_v<Kind, Finished>) {
      return Finished{};
    } else {
      return data.get<Kind>();
    }
  } else {
    throw std::invalid_argument("unknown event kind '" + kind + "'");
  }
}

Json json_of(const Event& event) {
  Json json{{"i", event.index},     {"rank", event.rank},
            {"step", event.step},   {"op", event.operation},
            {"phase", event.phase}, {"kind", kKinds[event.payload.index()]}};
  std::visit(
      [&](const auto& payload) {
        if constexpr (std::is_same_v<std::decay_t<decltype(payload)>, Finished>) {
          json["data"] = Json::object();
        } else {
          json["data"] = payload;
        }
      },
      event.payload);
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
  std::uint64_t digest = hash_bytes("shardfuzz.trace/1");
  for (const Event& event : trace.events) digest = combine(digest, hash_bytes(event_text(event)));
  return hex64(digest);
}

}  // namespace shardfuzz
