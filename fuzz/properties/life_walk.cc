#include "fuzz/properties/life_walk.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "fuzz/properties/exact_values.h"
#include "fuzz/properties/parameter_life.h"
#include "harness/base/check.h"
#include "harness/base/hash.h"
#include "harness/case/case_names.h"

namespace shardfuzz {
namespace {

std::string text_of(const Deed& deed) {
  switch (deed.kind) {
    case Deed::Kind::kSends:
      return fmt::format("sends value {}{}", deed.value,
                         deed.from_post_forward ? " of what was kept" : "");
    case Deed::Kind::kGathers:
      return fmt::format("gathers value {} (requires_grad {})", deed.value, deed.requires_grad);
    case Deed::Kind::kFrees: return fmt::format("frees, keeps {} bytes", deed.post_forward_bytes);
  }
  SHARDFUZZ_CHECK(false, "no such deed");
}

std::string text_of(const std::vector<Deed>& deeds) {
  std::vector<std::string> texts;
  for (const Deed& deed : deeds) texts.push_back(text_of(deed));
  return deeds.empty() ? "nothing" : fmt::format("{}", fmt::join(texts, ", "));
}

std::string text_of(const std::vector<Reduction>& reductions) {
  std::vector<std::string> texts;
  for (const Reduction& one : reductions) {
    texts.push_back(fmt::format("{} of {} ({} bytes)", one.kind, one.count, one.bytes));
  }
  return texts.empty() ? "no reduction" : fmt::format("{}", fmt::join(texts, ", "));
}

// One parameter on one rank.
struct Place {
  int rank = 0;
  std::size_t group = 0, param = 0;
  auto operator<=>(const Place&) const = default;
};

// The digests under which each value of a shard was seen: a value has one, in each dtype.
class Digests {
 public:
  // False: the value has another digest already.
  bool agrees(const Place& place, int value, const std::string& digest) {
    const auto [found, is_new] = seen_.try_emplace({place, value}, digest);
    return is_new || found->second == digest;
  }
  [[nodiscard]] std::optional<std::string> find(const Place& place, int value) const {
    const auto found = seen_.find({place, value});
    if (found == seen_.end()) return std::nullopt;
    return found->second;
  }

 private:
  std::map<std::pair<Place, int>, std::string> seen_;
};

std::string_view torch_name_of(DType dtype) {
  return dtype == DType::kFloat32 ? "float32" : dtype == DType::kBFloat16 ? "bfloat16" : "float16";
}

using Events = std::vector<const Event*>;

class Walk {
 public:
  Walk(const Case& c, const Trace& trace) : case_(c), trace_(trace), life_(c), exact_(c) {
    for (std::size_t g = 0; g < c.groups.size(); ++g) {
      for (std::size_t p = 0; p < c.groups[g].params.size(); ++p) {
        names_[{c.groups[g].name, c.groups[g].params[p].name}] = {g, p};
      }
    }
    for (const Event& event : trace.events) {
      events_[{event.step, event.operation}].push_back(&event);
    }
  }

  Departure run();

 private:
  void check_raises();
  void check_operation(const Operation& operation, const Events& events);
  void check_event(const Event& event);
  void check_deed(const Place& place, const Deed& seen);
  void check_sent(const Place& place, const PreAllGather& sent);
  void check_gathered(const Place& place, const Unsharded& gathered);
  void check_held(const Place& place, const Storage& storage);
  void check_gradient(const Place& place, const Gradient& gradient);
  void check_stepped(const Place& place, const Stepped& stepped);
  void check_reductions(const Events& events);
  void check_counts(const Operation& operation, const std::map<std::string, int>& counts);
  void check_exact(const Place& place, const char* what, const std::string& digest,
                   const std::optional<std::string>& want);
  void check_replicas(const Place& place, const char* what, const std::string& digest);
  void disagree(const char* what, const Place& place, const std::string& sentence);
  [[nodiscard]] const ParamState& state_of(const Place& place) const {
    return life_.states()[place.group][place.param];
  }
  [[nodiscard]] static ExactValues::Part part_of(const Place& place) {
    return {.group = place.group, .param = place.param, .rank = place.rank};
  }
  [[nodiscard]] const ParamSpec& spec_of(const Place& place) const {
    return case_.groups[place.group].params[place.param];
  }
  [[nodiscard]] bool sends_original(const Place& place) const {
    const auto& mixed = case_.groups[place.group].mixed_precision;
    return mixed.param_dtype.value_or(spec_of(place).dtype) == spec_of(place).dtype;
  }
  [[nodiscard]] std::vector<std::int64_t> local_shape(const Place& place) const;
  [[nodiscard]] bool must_change(const Place& place) const;
  template <typename Payload>
  [[nodiscard]] Place place_of(int rank, const Payload& payload) const {
    const auto& [g, p] = names_.at({payload.group, payload.param});
    return {.rank = rank, .group = g, .param = p};
  }

  const Case& case_;
  const Trace& trace_;
  ParameterLife life_;
  ExactValues exact_;
  std::map<std::pair<std::string, std::string>, std::pair<std::size_t, std::size_t>> names_;
  std::map<std::pair<int, int>, Events> events_;  // by step and operation, of all ranks in order
  Digests sent_, shards_;
  std::map<Place, std::pair<int, std::string>> gradients_;  // last seen: version, digest
  std::vector<std::vector<ParamState>> before_;             // this operation
  std::map<Place, std::vector<Deed>> deeds_;                // of this operation
  std::map<std::tuple<std::string, int, std::size_t, std::size_t>, std::string> replicas_;
  std::string now_;  // the operation, in words
  Departure found_;
};

void Walk::disagree(const char* what, const Place& place, const std::string& sentence) {
  if (!found_.what.empty()) return;
  found_ = {.what = what,
            .sentence = fmt::format("{}: rank {}, {}.{}: {}", now_, place.rank,
                                    case_.groups[place.group].name, spec_of(place).name, sentence)};
}

std::vector<std::int64_t> Walk::local_shape(const Place& place) const {
  const int ranks = case_.mesh.shard_size();
  std::vector<std::int64_t> shape = spec_of(place).shape;
  const std::int64_t chunk = (shape[0] + ranks - 1) / ranks;
  const std::int64_t start = std::min(shape[0], chunk * (place.rank % ranks));
  shape[0] = std::min(chunk, shape[0] - start);
  return shape;
}

void Walk::check_raises() {
  for (const Event& event : trace_.events) {
    const auto* raised = std::get_if<Raised>(&event.payload);
    if (raised == nullptr) continue;
    found_ = {.what = "raised",
              .sentence = fmt::format("rank {} raises {} in {} (operation {}): {}", event.rank,
                                      raised->type, event.phase, event.operation, raised->message)};
    return;
  }
}

Departure Walk::run() {
  check_raises();
  const std::vector<Operation> operations = operations_of(case_);
  for (int step = 0; step < case_.steps; ++step) {
    for (std::size_t i = 0; i < operations.size() && found_.what.empty(); ++i) {
      before_ = life_.states();
      life_.apply(operations[i]);
      exact_.apply(operations[i], step, before_, life_.states());
      now_ = fmt::format("operation {} ({}) of step {}", i, name_of(operations[i].kind), step);
      check_operation(operations[i], events_[{step, static_cast<int>(i)}]);
    }
  }
  return found_;
}

// In the order of the trace: what a rank sends comes before anybody has gathered it.
void Walk::check_operation(const Operation& operation, const Events& events) {
  deeds_.clear();
  replicas_.clear();
  std::map<std::string, int> counts;
  for (const Event* event : events) {
    if (std::holds_alternative<Gradient>(event->payload)) ++counts["gradient"];
    if (std::holds_alternative<Stepped>(event->payload)) ++counts["stepped"];
    if (std::holds_alternative<Loaded>(event->payload)) ++counts["loaded"];
    if (const auto* storage = std::get_if<Storage>(&event->payload)) {
      counts["storage"] += storage->at != "reshard";
    }
    check_event(*event);
  }
  for (int rank = 0; rank < case_.mesh.world_size(); ++rank) {
    for (const auto& [name, at] : names_) {
      const Place place{.rank = rank, .group = at.first, .param = at.second};
      const auto& want = state_of(place).deeds;
      if (deeds_[place] == want) continue;
      disagree("deeds", place, fmt::format("{}, not {}", text_of(deeds_[place]), text_of(want)));
    }
  }
  check_reductions(events);
  check_counts(operation, counts);
}

void Walk::check_reductions(const Events& events) {
  std::map<int, std::vector<Reduction>> seen;
  for (const Event* event : events) {
    const auto* launch = std::get_if<Launch>(&event->payload);
    if (launch == nullptr ||
        (launch->call.kind != "reduce_scatter" && launch->call.kind != "all_reduce")) {
      continue;
    }
    seen[event->rank].push_back(
        {.kind = launch->call.kind, .count = launch->call.count, .bytes = launch->call.bytes});
  }
  for (int rank = 0; rank < case_.mesh.world_size(); ++rank) {
    if (seen[rank] == life_.reductions() || !found_.what.empty()) continue;
    found_ = {.what = "reductions",
              .sentence = fmt::format("{}: rank {}: {}, not {}", now_, rank, text_of(seen[rank]),
                                      text_of(life_.reductions()))};
  }
}

void Walk::check_counts(const Operation& operation, const std::map<std::string, int>& counts) {
  const auto expect = [&](const char* what, bool wanted) {
    const int want = wanted ? static_cast<int>(names_.size()) * case_.mesh.world_size() : 0;
    const auto found = counts.find(what);
    const int got = found == counts.end() ? 0 : found->second;
    if (got == want) return;
    if (!found_.what.empty()) return;
    found_ = {.what = "events",
              .sentence = now_ + fmt::format(": {} events of kind {}, not {}", got, what, want)};
  };
  const bool is_pass = operation.kind == OpKind::kForward || operation.kind == OpKind::kBackward;
  expect("gradient", operation.kind == OpKind::kBackward);
  expect("stepped", operation.kind == OpKind::kStep);
  expect("loaded", operation.kind == OpKind::kLoad);
  expect("storage", is_pass || operation.kind == OpKind::kStep);
}

void Walk::check_event(const Event& event) {
  if (const auto* sent = std::get_if<PreAllGather>(&event.payload)) {
    check_sent(place_of(event.rank, *sent), *sent);
  } else if (const auto* gathered = std::get_if<Unsharded>(&event.payload)) {
    check_gathered(place_of(event.rank, *gathered), *gathered);
  } else if (const auto* storage = std::get_if<Storage>(&event.payload)) {
    check_held(place_of(event.rank, *storage), *storage);
  } else if (const auto* gradient = std::get_if<Gradient>(&event.payload)) {
    check_gradient(place_of(event.rank, *gradient), *gradient);
  } else if (const auto* stepped = std::get_if<Stepped>(&event.payload)) {
    check_stepped(place_of(event.rank, *stepped), *stepped);
  } else if (const auto* loaded = std::get_if<Loaded>(&event.payload)) {
    if (loaded->same_bytes && loaded->same_type) return;
    disagree("loaded", place_of(event.rank, *loaded), "what was loaded is not as saved");
  }
}

// The value is the one that the model predicts at this place of the list; the digest must be its.
int predicted_value(const std::vector<Deed>& deeds, std::size_t place) {
  return place < deeds.size() ? deeds[place].value : 0;
}

void Walk::check_sent(const Place& place, const PreAllGather& sent) {
  std::vector<Deed>& deeds = deeds_[place];
  const int value = predicted_value(state_of(place).deeds, deeds.size());
  deeds.push_back(
      {.kind = Deed::Kind::kSends, .value = value, .from_post_forward = sent.from_post_forward});
  if (sent.from_post_forward) return;
  if (sent.rows_digest != sent.local_digest) {
    disagree("sent", place, "sends other bytes than its shard's");
  }
  if (!sent_.agrees(place, value, sent.rows_digest)) {
    disagree("sent", place, fmt::format("value {} is sent in other bytes than before", value));
  }
  if (sends_original(place) && !shards_.agrees(place, value, sent.rows_digest)) {
    disagree("sent", place, fmt::format("value {} is sent in other bytes than held", value));
  }
}

void Walk::check_gathered(const Place& place, const Unsharded& gathered) {
  std::vector<Deed>& deeds = deeds_[place];
  const int value = predicted_value(state_of(place).deeds, deeds.size());
  deeds.push_back(
      {.kind = Deed::Kind::kGathers, .value = value, .requires_grad = gathered.requires_grad});
  const int ranks = case_.mesh.shard_size();
  if (gathered.slots.size() != static_cast<std::size_t>(ranks)) {
    return disagree("gathered", place, fmt::format("{} slots", gathered.slots.size()));
  }
  const int first = place.rank / ranks * ranks;
  for (int i = 0; i < ranks; ++i) {
    const Place owner{.rank = first + i, .group = place.group, .param = place.param};
    const auto& digest = gathered.slots[static_cast<std::size_t>(i)];
    // What the owner sent was seen before, since nothing is delivered before it is sent.
    const auto want = sent_.find(owner, value);
    if (want && *want == digest) continue;
    disagree("gathered", place,
             fmt::format("the rows of rank {} are not those of value {}", owner.rank, value));
  }
}

void Walk::check_held(const Place& place, const Storage& storage) {
  if (storage.at == "reshard") {
    deeds_[place].push_back(
        {.kind = Deed::Kind::kFrees, .post_forward_bytes = storage.post_forward_bytes});
    if (storage.unsharded_bytes == 0) return;
    return disagree("held", place,
                    fmt::format("{} bytes after a reshard", storage.unsharded_bytes));
  }
  const ParamState& state = state_of(place);
  if (storage.unsharded_bytes == state.unsharded_bytes &&
      storage.post_forward_bytes == state.post_forward_bytes) {
    return;
  }
  disagree(
      "held", place,
      fmt::format("holds {} bytes and keeps {}, not {} and {}", storage.unsharded_bytes,
                  storage.post_forward_bytes, state.unsharded_bytes, state.post_forward_bytes));
}

void Walk::check_replicas(const Place& place, const char* what, const std::string& digest) {
  const auto [found, is_new] = replicas_.try_emplace(
      {what, place.rank % case_.mesh.shard_size(), place.group, place.param}, digest);
  if (!is_new && found->second != digest) {
    disagree("replicas", place, fmt::format("its {} is not that of the first replica", what));
  }
}

void Walk::check_exact(const Place& place, const char* what, const std::string& digest,
                       const std::optional<std::string>& want) {
  if (!want || *want == digest) return;
  disagree("exact", place, fmt::format("its {} is not what the model computes", what));
}

void Walk::check_gradient(const Place& place, const Gradient& gradient) {
  const ParamState& state = state_of(place);
  if (gradient.present != state.has_gradient) {
    return disagree("gradient", place, gradient.present ? "has a gradient" : "has no gradient");
  }
  if (!gradient.present) {
    gradients_.erase(place);
    return;
  }
  if (gradient.shape != local_shape(place) || gradient.type != "Tensor" ||
      gradient.dtype != torch_name_of(spec_of(place).dtype)) {
    disagree("gradient", place,
             fmt::format("its gradient is a {} [{}] {}", gradient.type,
                         fmt::join(gradient.shape, ", "), gradient.dtype));
  }
  check_replicas(place, "gradient", gradient.digest);
  check_exact(place, "gradient", gradient.digest, exact_.gradient(part_of(place)));
  const auto last = gradients_.find(place);
  if (last != gradients_.end() && last->second.first == state.gradient_version &&
      last->second.second != gradient.digest) {
    disagree("gradient", place, "its gradient changed although nothing was reduced");
  }
  gradients_[place] = {state.gradient_version, gradient.digest};
}

// The gradient is not zero, and no rounding can hide the step: of so many products of -1, 0 and 1
// not all are zero (each is with 5/9).
bool Walk::must_change(const Place& place) const {
  constexpr std::int64_t kManyElements = 64;
  if (case_.optimizer.kind != OptimizerKind::kSgd) return false;
  if (spec_of(place).dtype != DType::kFloat32) return false;
  std::int64_t numel = 1;
  for (const std::int64_t size : local_shape(place)) numel *= size;
  return numel >= kManyElements;
}

void Walk::check_stepped(const Place& place, const Stepped& stepped) {
  const ParamState& state = state_of(place);
  if (stepped.requires_grad != state.trainable || !stepped.optimizer_owns_it ||
      stepped.dtype != torch_name_of(spec_of(place).dtype)) {
    disagree("stepped", place,
             fmt::format("requires_grad {}, {}, the optimizer {} it", stepped.requires_grad,
                         stepped.dtype, stepped.optimizer_owns_it ? "owns" : "does not own"));
  }
  check_replicas(place, "value", stepped.digest);
  check_exact(place, "value", stepped.digest, exact_.value(part_of(place)));
  if (!shards_.agrees(place, state.value, stepped.digest)) {
    disagree("stepped", place, fmt::format("value {} is held in other bytes", state.value));
  }
  const int before = before_[place.group][place.param].value;
  if (before != state.value && must_change(place) &&
      shards_.find(place, before) == stepped.digest) {
    disagree("stepped", place, "did not change although its gradient is not zero");
  }
}

}  // namespace

Departure walk(const Case& c, const Trace& trace) { return Walk(c, trace).run(); }

}  // namespace shardfuzz
