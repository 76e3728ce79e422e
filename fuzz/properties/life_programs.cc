#include "fuzz/properties/life_programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "fuzz/properties/parameter_life.h"
#include "harness/base/random.h"
#include "harness/case/case_names.h"

namespace shardfuzz {
namespace {

constexpr int kLongestWildProgram = 16;

template <typename T>
T pick(Random& random, const std::vector<T>& values) {
  return values[random.below(values.size())];
}

Mesh any_mesh(Random& random) {
  const std::vector<int> shape = pick<std::vector<int>>(
      random, {{1}, {2}, {2}, {3}, {3}, {4}, {4}, {4}, {1, 2}, {2, 1}, {2, 2}, {2, 2}});
  if (shape.size() == 1) return {.shape = shape};
  return {.shape = shape, .dim_names = {"replicate", "shard"}};
}

// An extension cannot be resharded to a smaller mesh.
ReshardAfterForward any_policy(Random& random, int ranks, bool has_extension) {
  switch (random.below(has_extension || ranks == 1 ? 3 : 5)) {
    case 0: return {};
    case 1: return true;
    case 2: return false;
    case 3: return ranks == 4 ? 2 : ranks;
    default: return pick<int>(random, {1, ranks});
  }
}

MixedPrecision any_mixed_precision(Random& random, bool must_cast) {
  MixedPrecision mixed;
  if (must_cast || random.chance(50)) mixed.param_dtype = DType::kBFloat16;
  if (random.chance(50)) mixed.reduce_dtype = DType::kFloat32;
  return mixed;
}

std::int64_t any_rows(Random& random, int ranks) { return random.between(1, 2 * ranks + 1); }

ParamSpec any_param(Random& random, int ranks, bool is_extension) {
  ParamSpec param;
  param.requires_grad = !random.chance(20);
  if (is_extension) {
    param.pack = "torchao_moe_fp8";
    param.hook = "padded";
    param.shape = {any_rows(random, ranks), 16, 16};
    param.call = random.chance(50) ? CallPath::kGroupedMm : CallPath::kMul;
    return param;
  }
  param.shape = {any_rows(random, ranks)};
  for (std::uint64_t dims = random.below(3); dims > 0; --dims) {
    param.shape.push_back(random.between(1, 4));
  }
  if (param.shape.size() == 2 && random.chance(30)) param.call = CallPath::kLinear;
  return param;
}

GroupSpec any_group(Random& random, std::size_t number, int ranks, bool may_be_empty) {
  GroupSpec group{.name = number == 0 ? "root" : fmt::format("g{}", number)};
  const bool has_extension = random.chance(35);
  group.reshard_after_forward = any_policy(random, ranks, has_extension);
  group.mixed_precision = any_mixed_precision(random, has_extension);
  const DType dtype = random.chance(25) ? DType::kBFloat16 : DType::kFloat32;
  const int count = may_be_empty && random.chance(15) ? 0 : static_cast<int>(random.between(1, 3));
  for (int i = 0; i < count; ++i) {
    const bool is_extension = has_extension && (i == 0 || random.chance(50));
    ParamSpec param = any_param(random, ranks, is_extension);
    param.name = fmt::format("p{}", i);
    param.dtype = dtype;
    group.params.push_back(std::move(param));
  }
  return group;
}

Case any_model(Random& random) {
  Case c;
  c.seed = random.below(1000);
  c.mesh = any_mesh(random);
  const std::size_t groups = 1 + random.below(3);
  for (std::size_t g = 0; g < groups; ++g) {
    c.groups.push_back(any_group(random, g, c.mesh.shard_size(), g == 0 && groups > 1));
  }
  if (random.chance(40)) c.optimizer.kind = OptimizerKind::kSgdMomentum;
  c.schedule.policy = pick(random, all_of<SchedulePolicy>());
  c.schedule.delivery = pick(random, all_of<Delivery>());
  c.schedule.seed = random.below(1000);
  c.schedule.change_points = static_cast<int>(random.below(4));
  c.steps = 1;
  return c;
}

// Passes and steps come often: without them there is little to predict. What sets how gradients add
// up comes next, since it takes several passes to show.
OpKind any_kind(Random& random) {
  static const std::vector<OpKind> kOften = {
      OpKind::kForward,  OpKind::kForward,  OpKind::kForward,     OpKind::kBackward,
      OpKind::kBackward, OpKind::kBackward, OpKind::kStep,        OpKind::kStep,
      OpKind::kUnshard,  OpKind::kReshard,  OpKind::kGradientSync};
  return random.chance(60) ? pick(random, kOften) : pick(random, all_of<OpKind>());
}

Operation any_operation(Random& random, const Case& c) {
  Operation operation{.kind = any_kind(random)};
  const OpArguments wanted = arguments_of(operation.kind);
  if (wanted.flag) operation.flag = random.chance(55);
  if (!wanted.group) return operation;
  std::vector<const GroupSpec*> groups;
  for (const GroupSpec& group : c.groups) {
    if (!group.params.empty()) groups.push_back(&group);
  }
  const GroupSpec& group = *pick(random, groups);
  operation.group = group.name;
  if (wanted.param) operation.param = pick(random, group.params).name;
  return operation;
}

}  // namespace

std::string why_not_legal(const Case& c) {
  ParameterLife life(c);
  const std::vector<Operation> operations = operations_of(c);
  for (int step = 0; step < c.steps; ++step) {
    for (const Operation& operation : operations) {
      if (std::string reason = life.why_not(operation); !reason.empty()) return reason;
      life.apply(operation);
    }
  }
  return "";
}

Case life_case(std::uint64_t seed) {
  Random random(seed);
  Case c = any_model(random);
  ParameterLife life(c);
  const auto length = static_cast<std::size_t>(random.between(3, kLongestProgram));
  for (int tries = 0; tries < 10 * kLongestProgram && c.operations.size() < length; ++tries) {
    const Operation operation = any_operation(random, c);
    if (!life.why_not(operation).empty()) continue;
    life.apply(operation);
    c.operations.push_back(operation);
  }
  c.steps = 2;
  if (!random.chance(30) || !why_not_legal(c).empty()) c.steps = 1;
  return c;
}

// One program in four may hold what the format refuses.
Case wild_case(std::uint64_t seed) {
  Random random(seed);
  Case c = any_model(random);
  const bool may_be_refused = random.chance(25);
  for (std::int64_t i = random.between(1, kLongestWildProgram); i > 0; --i) {
    c.operations.push_back(any_operation(random, c));
    if (!may_be_refused && is_refused_program(c)) c.operations.pop_back();
  }
  if (c.operations.empty()) c.operations.push_back({.kind = OpKind::kBackward});
  return c;
}

bool is_refused_program(const Case& c) {
  bool is_saved = false;
  std::vector<std::string> waiting;
  for (const Operation& operation : c.operations) {
    if (operation.kind == OpKind::kSave) is_saved = true;
    if (operation.kind == OpKind::kLoad && !is_saved) return true;
    if (operation.kind == OpKind::kAllReduce && c.mesh.shape.size() < 2) return true;
    if (operation.kind == OpKind::kUnshard && operation.flag) waiting.push_back(operation.group);
    if (operation.kind == OpKind::kWaitUnshard && std::erase(waiting, operation.group) == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace shardfuzz
