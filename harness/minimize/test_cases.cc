#include "harness/minimize/test_cases.h"

#include <algorithm>
#include <utility>

#include "harness/base/check.h"
#include "harness/case/pack_info.h"
#include "harness/case/validate.h"

namespace shardfuzz::testing {
namespace {

constexpr int kDrawsMax = 10000;

bool is_under_test(const ParamSpec& param) {
  return param.pack == "torchao_moe_fp8" && param.hook == "one_arg";
}

template <typename T>
const T& pick(Random* random, const std::vector<T>& from) {
  return from[random->below(from.size())];
}

ParamSpec random_param(Random* random, bool must_be_under_test) {
  ParamSpec param;
  param.name = "p" + std::to_string(random->below(1000000));
  const PackInfo& pack =
      must_be_under_test ? *find_pack("torchao_moe_fp8") : pick(random, all_packs());
  param.pack = pack.name;
  param.hook = must_be_under_test ? "one_arg" : pick(random, pack.hooks).name;
  param.call = pick(random, pack.calls);
  param.dtype = pick(random, pack.dtypes);
  param.requires_grad = !random->chance(10);
  std::size_t dims = 1 + random->below(3);
  if (param.call == CallPath::kLinear) dims = 2;
  if (param.call != CallPath::kLinear && param.call != CallPath::kMul) dims = 3;
  param.shape.push_back(random->between(1, 20));
  for (std::size_t dim = 1; dim < dims; ++dim) {
    param.shape.push_back(pack.dim_multiple * random->between(1, 6));
  }
  if (random->chance(10)) param.shard_dim = static_cast<int>(random->below(dims));
  return param;
}

GroupSpec random_group(Random* random, bool must_be_under_test) {
  GroupSpec group;
  group.name = "m" + std::to_string(random->below(1000000));
  const auto count = random->between(1, 3);
  for (std::int64_t i = 0; i < count; ++i) {
    group.params.push_back(random_param(random, must_be_under_test && i == 0));
  }
  if (random->chance(50)) group.reshard_after_forward = random->chance(60);
  group.mixed_precision.param_dtype = random->chance(70) ? DType::kBFloat16 : DType::kFloat16;
  if (random->chance(40)) group.mixed_precision.reduce_dtype = DType::kFloat32;
  if (random->chance(20)) group.mixed_precision.output_dtype = DType::kBFloat16;
  group.mixed_precision.cast_forward_inputs = !random->chance(20);
  group.offload_to_cpu = random->chance(10);
  return group;
}

void add_operations(Random* random, Case* c) {
  c->operations = operations_of(*c);
  const auto extra = random->between(1, 5);
  for (std::int64_t i = 0; i < extra; ++i) {
    const std::vector<ParamRef> refs = params_of(*c);
    const ParamRef ref = pick(random, refs);
    const std::string group = c->groups[ref.group].name;
    const std::vector<Operation> known = {
        {.kind = OpKind::kForward, .group = {}, .param = {}},
        {.kind = OpKind::kUnshard, .group = group, .param = {}},
        {.kind = OpKind::kReshard, .group = group, .param = {}},
        {.kind = OpKind::kPrefetchForward, .group = group, .param = {}},
        {.kind = OpKind::kFreeze, .group = group, .param = at(*c, ref).name},
        {.kind = OpKind::kFullTensor, .group = group, .param = at(*c, ref).name},
        {.kind = OpKind::kSave, .group = {}, .param = {}},
    };
    const auto place = random->below(c->operations.size() + 1);
    c->operations.insert(c->operations.begin() + static_cast<std::ptrdiff_t>(place),
                         pick(random, known));
  }
}

void set_rest(Random* random, Case* c) {
  const auto ranks = static_cast<std::size_t>(c->mesh.world_size());
  c->batch.tokens_per_expert = static_cast<int>(16 * random->between(1, 4));
  c->batch.top_k = static_cast<int>(random->between(1, 3));
  if (random->chance(30)) c->batch.tokens_by_rank.assign(ranks, 2);
  if (random->chance(30)) c->schedule.delays.assign(ranks, 3);
  c->batch.same_on_all_ranks = random->chance(20);
  if (random->chance(30)) c->batch.values = DataKind::kNormal;
  if (random->chance(30)) c->optimizer.kind = OptimizerKind::kSgdMomentum;
  c->optimizer.lr_log2 = static_cast<int>(random->between(-10, -2));
  c->schedule.policy = static_cast<SchedulePolicy>(random->below(3));
  c->schedule.seed = random->next();
  c->schedule.change_points = static_cast<int>(random->below(5));
  if (random->chance(50)) c->schedule.delivery = Delivery::kLate;
  c->seed = random->next();
  if (random->chance(30)) c->compare_meshes = {{1}, {2, 2}};
  const auto& root_params = c->groups[0].params;
  if (c->groups.size() > 1 && random->chance(20) && root_params[0].pack == "plain") {
    c->groups[1].params.push_back(root_params[0]);
    c->groups[1].params.back().name = "tied";
    c->groups[1].params.back().tied_to = c->groups[0].name + "." + root_params[0].name;
  }
  if (c->groups.size() > 1 && random->chance(20)) c->groups[1].unused_on_ranks = {0};
}

}  // namespace

Case random_case(Random* random) {
  for (int draw = 0; draw < kDrawsMax; ++draw) {
    Case c;
    c.name = "start_" + std::to_string(random->below(1000));
    c.mesh.shape = {static_cast<int>(random->between(1, 8))};
    if (random->chance(25)) {
      c.mesh = {.shape = {2, static_cast<int>(random->between(1, 5))},
                .dim_names = {"replicate", "shard"}};
    }
    const auto groups = random->between(1, 4);
    const auto under_test = random->between(0, groups - 1);
    for (std::int64_t g = 0; g < groups; ++g) {
      c.groups.push_back(random_group(random, g == under_test));
    }
    c.steps = static_cast<int>(random->between(1, 5));
    if (random->chance(60)) add_operations(random, &c);
    set_rest(random, &c);
    if (validate(c).ok()) return c;
  }
  SHARDFUZZ_CHECK(false, "no valid case in {} draws", kDrawsMax);
}

Evaluate evaluate_with(Bug bug) {
  return [bug = std::move(bug)](const Case& c) {
    Verdict verdict;
    verdict.kind = VerdictKind::kPass;
    if (const auto shown = bug(c)) {
      verdict.kind = VerdictKind::kFail;
      verdict.signature = kSignature;
      verdict.findings.push_back({.property = "P1",
                                  .group = c.groups[shown->group].name,
                                  .param = at(c, *shown).name,
                                  .phase = {},
                                  .sentence = {}});
    }
    return verdict;
  };
}

Bug bug_on_rows(std::function<bool(std::int64_t, std::int64_t)> shows) {
  return [shows = std::move(shows)](const Case& c) -> std::optional<ParamRef> {
    for (const ParamRef ref : params_of(c)) {
      const ParamSpec& param = at(c, ref);
      if (is_under_test(param) && shows(rows_of(param), c.mesh.shard_size())) return ref;
    }
    return std::nullopt;
  };
}

std::optional<ParamRef> nested_reshard_bug(const Case& c) {
  if (c.steps < 2) return std::nullopt;
  for (const ParamRef ref : params_of(c)) {
    const bool* flag = std::get_if<bool>(&c.groups[ref.group].reshard_after_forward);
    const bool is_resharding = flag != nullptr && *flag;
    if (ref.group > 0 && is_resharding && is_under_test(at(c, ref))) return ref;
  }
  return std::nullopt;
}

Case failing_case(Random* random, const Bug& bug) {
  for (int draw = 0; draw < kDrawsMax; ++draw) {
    Case c = random_case(random);
    if (bug(c)) return c;
  }
  SHARDFUZZ_CHECK(false, "no failing case in {} draws", kDrawsMax);
}

}  // namespace shardfuzz::testing
