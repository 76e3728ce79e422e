#include "harness/oracle/test_traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/base/random.h"

namespace shardfuzz {
namespace {

// One of the two parameters with the numbers that events repeat.
struct Facts {
  std::string group, param, type, orig, sent;
  std::vector<std::int64_t> full;
  std::int64_t rows = 0;                        // of the padded shard
  std::int64_t orig_bytes = 0, sent_bytes = 0;  // of one element
  int hook_arguments = 0;

  [[nodiscard]] std::vector<std::int64_t> with_rows(std::int64_t count) const {
    std::vector<std::int64_t> shape = full;
    shape[0] = count;
    return shape;
  }
  [[nodiscard]] std::int64_t padded_numel() const {
    std::int64_t numel = 1;
    for (const std::int64_t dim : with_rows(rows)) numel *= dim;
    return numel;
  }
  [[nodiscard]] std::int64_t rows_of(int rank) const {
    return std::clamp<std::int64_t>(full[0] - rows * rank, 0, rows);
  }
  [[nodiscard]] std::string digest(int rank) const { return fmt::format("{} of {}", param, rank); }
};

class Builder {
 public:
  explicit Builder(const Case& c) : ranks_(c.mesh.world_size()) {
    const std::int64_t ranks = ranks_;
    const std::int64_t experts = c.groups[1].params[0].shape[0];
    r_ = {.group = "root",
          .param = "r",
          .type = "Tensor",
          .orig = "float32",
          .sent = "float32",
          .full = {4},
          .rows = (4 + ranks - 1) / ranks,
          .orig_bytes = 4,
          .sent_bytes = 4};
    w_ = {.group = "experts",
          .param = "w",
          .type = "Wrapper",
          .orig = "float32",
          .sent = "bfloat16",
          .full = {experts, 16, 32},
          .rows = (experts + ranks - 1) / ranks,
          .orig_bytes = 4,
          .sent_bytes = 2,
          .hook_arguments = 5};
    trace_.world_size = ranks_;
    trace_.mesh = c.mesh.shape;
    trace_.torch_version = "2.11.0";
    trace_.torchao_version = "0.18.0";
  }

  Trace build() {
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const Facts* facts : {&r_, &w_}) record(rank, sharded(*facts, rank));
    }
    operation(0, "forward");
    gather(r_);
    gather(w_);
    hold(r_, r_.padded_numel() * r_.sent_bytes * ranks_);
    hold(w_, 0);
    operation(1, "backward");
    gather(w_);
    reduce(w_);
    reduce(r_);
    gradients();
    hold(r_, 0);
    hold(w_, 0);
    operation(2, "step");
    stepped();
    hold(r_, 0);
    hold(w_, 0);
    operation(-1, "end");
    for (int rank = 0; rank < ranks_; ++rank) record(rank, Finished{});
    operation(-1, "reference");
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const Facts* facts : {&r_, &w_}) compare(*facts, rank);
    }
    for (const Facts* facts : {&r_, &w_}) {
      record(-1, Final{.group = facts->group,
                       .param = facts->param,
                       .digest = "end",
                       .exact = true,
                       .sample = {1.0, -2.0}});
    }
    return trace_;
  }

 private:
  void operation(int number, std::string phase) {
    step_ = 0;
    operation_ = number;
    phase_ = std::move(phase);
  }
  void record(int rank, Payload payload) {
    trace_.events.push_back({.index = static_cast<std::int64_t>(trace_.events.size()),
                             .rank = rank,
                             .step = step_,
                             .operation = operation_,
                             .phase = phase_,
                             .payload = std::move(payload)});
  }

  [[nodiscard]] Sharded sharded(const Facts& facts, int rank) const {
    return {.group = facts.group,
            .param = facts.param,
            .local_shape = facts.with_rows(facts.rows_of(rank)),
            .padded_shape = facts.with_rows(facts.rows),
            .local_type = facts.type,
            .dtype = facts.orig,
            .expected_type = facts.type,
            .storage_bytes = facts.padded_numel() * facts.orig_bytes};
  }

  void launch(int rank, const std::string& kind, const Facts& facts, const std::string& reduce) {
    const std::int64_t numel = facts.padded_numel();
    std::vector<int> members;
    for (int member = 0; member < ranks_; ++member) members.push_back(member);
    record(rank, Launch{.process_group = "shard",
                        .members = members,
                        .sequence = sequence_,
                        .call = {.rank = rank,
                                 .kind = kind,
                                 .dtype = facts.sent == "float32" ? "Float" : "BFloat16",
                                 .count = numel,
                                 .bytes = numel * facts.sent_bytes,
                                 .reduce = reduce},
                        .digest = "in"});
  }
  void deliver(const std::string& kind) {
    for (int rank = 0; rank < ranks_; ++rank) {
      record(rank,
             Delivered{
                 .process_group = "shard", .sequence = sequence_, .kind = kind, .digest = "out"});
    }
    ++sequence_;
  }

  void gather(const Facts& facts) {
    for (int rank = 0; rank < ranks_; ++rank) {
      const TensorNote sent{.shape = facts.with_rows(facts.rows),
                            .dtype = facts.sent,
                            .bytes = facts.padded_numel() * facts.sent_bytes};
      record(rank, PreAllGather{.group = facts.group,
                                .param = facts.param,
                                .hook_arguments = facts.hook_arguments,
                                .inputs = {sent},
                                .declared = {sent},
                                .rows_digest = facts.digest(rank),
                                .local_digest = facts.digest(rank)});
      launch(rank, "all_gather", facts, "");
    }
    deliver("all_gather");
    std::vector<std::string> slots;
    for (int rank = 0; rank < ranks_; ++rank) slots.push_back(facts.digest(rank));
    const std::int64_t row_bytes = facts.padded_numel() * facts.sent_bytes / facts.rows;
    for (int rank = 0; rank < ranks_; ++rank) {
      record(rank, Unsharded{.group = facts.group,
                             .param = facts.param,
                             .shape = facts.full,
                             .dtype = facts.sent,
                             .type = facts.type,
                             .expected_type = facts.type,
                             .storage_bytes = row_bytes * facts.rows * ranks_,
                             .needed_bytes = row_bytes * facts.full[0],
                             .slots = slots});
    }
  }

  void reduce(const Facts& facts) {
    for (int rank = 0; rank < ranks_; ++rank) launch(rank, "reduce_scatter", facts, "avg");
    deliver("reduce_scatter");
  }

  void hold(const Facts& facts, std::int64_t bytes) {
    for (int rank = 0; rank < ranks_; ++rank) {
      record(
          rank,
          Storage{
              .group = facts.group, .param = facts.param, .at = phase_, .unsharded_bytes = bytes});
    }
  }

  void gradients() {
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const Facts* facts : {&r_, &w_}) {
        record(rank, Gradient{.group = facts->group,
                              .param = facts->param,
                              .present = true,
                              .type = "Tensor",
                              .dtype = facts->orig,
                              .shape = facts->with_rows(facts->rows_of(rank)),
                              .digest = "gradient"});
      }
    }
  }

  void stepped() {
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const Facts* facts : {&r_, &w_}) {
        record(rank, Stepped{.group = facts->group,
                             .param = facts->param,
                             .type = facts->type,
                             .dtype = facts->orig,
                             .digest = "stepped"});
      }
    }
  }

  void compare(const Facts& facts, int rank) {
    record(
        rank,
        Reference{.group = facts.group, .param = facts.param, .what = "gradient", .exact = true});
  }

  int ranks_;
  Facts r_, w_;
  Trace trace_;
  int step_ = -1, operation_ = -1;
  std::string phase_ = "init";
  std::int64_t sequence_ = 0;
};

}  // namespace

Case small_case(const SmallCase& options) {
  Case c;
  c.name = "small";
  c.mesh.shape = {options.ranks};
  c.steps = 1;
  GroupSpec root{.name = "root", .params = {{.name = "r", .shape = {4}}}};
  GroupSpec experts{.name = "experts",
                    .params = {{.name = "w",
                                .shape = {options.experts, 16, 32},
                                .pack = "torchao_moe_fp8",
                                .hook = options.hook,
                                .call = CallPath::kGroupedMm}}};
  experts.mixed_precision.param_dtype = DType::kBFloat16;
  c.groups = {root, experts};
  return c;
}

Trace healthy_trace(const Case& c) { return Builder(c).build(); }

Trace interleaved(const Trace& trace, std::uint64_t seed) {
  Random random(seed);
  std::map<int, std::vector<Event>> by_rank;
  for (const Event& event : trace.events) by_rank[event.rank].push_back(event);
  std::vector<Event> harness = by_rank.count(-1) != 0 ? by_rank[-1] : std::vector<Event>{};
  by_rank.erase(-1);
  Trace other = trace;
  other.events.clear();
  std::map<int, std::size_t> next;
  while (!by_rank.empty()) {
    auto chosen = by_rank.begin();
    std::advance(chosen, static_cast<long>(random.below(by_rank.size())));
    std::size_t& at = next[chosen->first];
    other.events.push_back(chosen->second[at]);
    if (++at == chosen->second.size()) by_rank.erase(chosen);
  }
  other.events.insert(other.events.end(), harness.begin(), harness.end());
  for (std::size_t i = 0; i < other.events.size(); ++i) {
    other.events[i].index = static_cast<std::int64_t>(i);
  }
  return other;
}

void cut(Trace* trace, int rank, std::int64_t first_index) {
  std::erase_if(trace->events, [&](const Event& event) {
    return event.rank == rank && event.index >= first_index;
  });
}

void add(Trace* trace, int rank, Payload payload) {
  Event event{.index = trace->events.empty() ? 0 : trace->events.back().index + 1,
              .rank = rank,
              .phase = "init"};
  for (const Event& other : trace->events) {
    if (other.rank != rank) continue;
    event.step = other.step;
    event.operation = other.operation;
    event.phase = other.phase;
  }
  event.payload = std::move(payload);
  trace->events.push_back(std::move(event));
}

Findings found_by(void (*check)(const Expected&, const Trace&, Findings*), const Case& c,
                  const Trace& trace) {
  Findings findings;
  const Expected expected(c);
  check(expected, trace, &findings);
  return findings;
}

void PrintTo(const Finding& finding, std::ostream* out) {
  *out << fmt::format("{} rank {} '{}' in {} of step {} at event {}: {}", finding.property,
                      finding.rank, path_of(finding.group, finding.param), finding.phase,
                      finding.step, finding.event, finding.sentence);
}

std::vector<SmallCase> healthy_shapes() {
  return {{.experts = 2, .ranks = 2},
          {.experts = 1, .ranks = 2},
          {.experts = 3, .ranks = 2},
          {.experts = 5, .ranks = 4},
          {.experts = 1, .ranks = 3}};
}

}  // namespace shardfuzz
