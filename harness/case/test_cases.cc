#include "harness/case/test_cases.h"

#include <limits>

#include "harness/case/case_names.h"

namespace shardfuzz {
namespace {

ParamSpec good_expert_weight() {
  return {.name = "w1",
          .shape = {3, 32, 16},
          .dtype = DType::kBFloat16,
          .pack = "torchao_moe_fp8",
          .hook = "shipped",
          .call = CallPath::kGroupedMm,
          .tied_to = {}};
}

GroupSpec good_root() {
  GroupSpec root{.name = "root", .params = {}};
  root.params.push_back(
      {.name = "norm", .shape = {8, 6}, .shard_dim = 1, .requires_grad = false, .tied_to = {}});
  root.reshard_after_forward = false;
  return root;
}

GroupSpec good_moe() {
  GroupSpec moe{.name = "moe", .params = {good_expert_weight(), good_expert_weight()}};
  moe.params[1].name = "w2";
  moe.params[1].tied_to = "moe.w1";
  moe.reshard_after_forward = 2;
  moe.mixed_precision = {.param_dtype = DType::kBFloat16,
                         .reduce_dtype = DType::kFloat32,
                         .output_dtype = DType::kFloat16,
                         .cast_forward_inputs = false};
  moe.offload_to_cpu = true;
  moe.unused_on_ranks = {1, 3};
  return moe;
}

// Every kind of operation once, and an all_reduce, since the mesh is HSDP.
std::vector<Operation> good_operations() {
  std::vector<Operation> operations;
  for (const OpKind kind : all_of<OpKind>()) {
    const OpArguments wanted = arguments_of(kind);
    operations.push_back({.kind = kind,
                          .group = wanted.group ? "moe" : "",
                          .param = wanted.param ? "w1" : "",
                          .flag = kind == OpKind::kUnshard});
  }
  return operations;
}

}  // namespace

Case good_case() {
  Case c;
  c.name = "good-case.1";
  c.origin = {.kind = "report", .source = "https://example.org/issues/1", .note = "a note"};
  c.mesh = {.shape = {2, 4}, .dim_names = {"replicate", "shard"}};
  c.groups = {good_root(), good_moe()};
  c.batch = {.tokens_per_expert = 8,
             .top_k = 2,
             .tokens_by_rank = {1, 2, 0, 1, 1, 1, 1, 3},
             .empty_experts = {2, 0},
             .same_on_all_ranks = true,
             .values = DataKind::kNormal};
  c.optimizer = {.kind = OptimizerKind::kSgdMomentum, .lr_log2 = -3};
  c.steps = 2;
  c.operations = good_operations();
  c.schedule = {.policy = SchedulePolicy::kPriority,
                .seed = std::numeric_limits<std::uint64_t>::max(),
                .change_points = 3,
                .delivery = Delivery::kLate,
                .delays = {0, 1, 2, 3, 4, 5, 6, 7}};
  c.seed = 11;
  c.compare_meshes = {{1}, {2, 2}};
  c.environment = {.torch = "2.11.0",
                   .torchao = "0.18.0",
                   .nccl = "2.28.9",
                   .target = "native",
                   .comm = "nccl",
                   .device = "cuda"};
  c.expect = {.verdict = "fail", .signature = "P1 short", .sentence = "one is short"};
  c.predicate = "experts % ranks != 0";
  c.history = {{.date = "2026-01-02", .state = "incubating", .note = "first seen"}};
  return c;
}

Case full_case() {
  Case c = good_case();
  for (GroupSpec& group : c.groups) {
    for (ParamSpec& param : group.params) param.tensor_parallel_dim = 1;
  }
  return c;
}

namespace {

// Texts that a careless writer would spoil.
std::string random_text(Random* random) {
  static const std::vector<std::string> kTexts{"",           "w",
                                               "a b",        "\"quotes\" and \\",
                                               "\n\t\r\b\f", std::string("\0x", 2),
                                               "/a~b/",      "\u00e9\u4e2d\U0001f600",
                                               "\x7f",       "</script>",
                                               "null",       "x"};
  return kTexts[random->below(kTexts.size())];
}

template <typename Enum>
Enum random_value(Random* random) {
  return all_of<Enum>()[random->below(all_of<Enum>().size())];
}

int random_int(Random* random) {
  if (random->chance(10)) return std::numeric_limits<int>::min();
  if (random->chance(10)) return std::numeric_limits<int>::max();
  return static_cast<int>(random->between(-5, 100));
}

// Up to 40 numbers: some do not fit on a line.
std::vector<int> random_ints(Random* random) {
  std::vector<int> values(random->chance(50) ? 0 : random->below(40));
  for (int& value : values) value = random_int(random);
  return values;
}

ParamSpec random_param(Random* random) {
  ParamSpec param;
  param.name = random_text(random);
  for (std::uint64_t i = random->below(5); i > 0; --i) {
    param.shape.push_back(static_cast<std::int64_t>(random->next()));
  }
  param.dtype = random_value<DType>(random);
  param.shard_dim = random_int(random);
  if (random->chance(50)) param.pack = random_text(random);
  if (random->chance(50)) param.hook = random_text(random);
  param.call = random_value<CallPath>(random);
  param.requires_grad = random->chance(50);
  param.tied_to = random_text(random);
  if (random->chance(50)) param.tensor_parallel_dim = random_int(random);
  return param;
}

GroupSpec random_group(Random* random) {
  GroupSpec group;
  group.name = random_text(random);
  for (std::uint64_t i = random->below(4); i > 0; --i) group.params.push_back(random_param(random));
  if (random->chance(30)) group.reshard_after_forward = random->chance(50);
  if (random->chance(30)) group.reshard_after_forward = random_int(random);
  if (random->chance(50)) group.mixed_precision.param_dtype = random_value<DType>(random);
  if (random->chance(50)) group.mixed_precision.reduce_dtype = random_value<DType>(random);
  if (random->chance(50)) group.mixed_precision.output_dtype = random_value<DType>(random);
  group.mixed_precision.cast_forward_inputs = random->chance(50);
  group.offload_to_cpu = random->chance(50);
  group.unused_on_ranks = random_ints(random);
  return group;
}

void fill_texts(Random* random, Case* c) {
  c->name = random_text(random);
  c->origin = {random_text(random), random_text(random), random_text(random)};
  c->environment = {random_text(random), random_text(random), random_text(random),
                    random_text(random), random_text(random), random_text(random)};
  c->expect = {random_text(random), random_text(random), random_text(random)};
  c->predicate = random_text(random);
  for (std::uint64_t i = random->below(3); i > 0; --i) {
    c->history.push_back({random_text(random), random_text(random), random_text(random)});
  }
}

}  // namespace

Case random_case(Random* random) {
  Case c;
  if (random->chance(50)) fill_texts(random, &c);
  c.mesh.shape = random_ints(random);
  for (std::uint64_t i = random->below(4); i > 0; --i) {
    c.mesh.dim_names.push_back(random_text(random));
  }
  for (std::uint64_t i = random->below(4); i > 0; --i) c.groups.push_back(random_group(random));
  if (random->chance(50)) {
    c.batch = {.tokens_per_expert = random_int(random),
               .top_k = random_int(random),
               .tokens_by_rank = random_ints(random),
               .empty_experts = random_ints(random),
               .same_on_all_ranks = random->chance(50),
               .values = random_value<DataKind>(random)};
  }
  c.optimizer = {.kind = random_value<OptimizerKind>(random), .lr_log2 = random_int(random)};
  c.steps = random_int(random);
  for (std::uint64_t i = random->below(8); i > 0; --i) {
    c.operations.push_back({.kind = random_value<OpKind>(random),
                            .group = random_text(random),
                            .param = random_text(random),
                            .flag = random->chance(50)});
  }
  c.schedule = {.policy = random_value<SchedulePolicy>(random),
                .seed = random->next(),
                .change_points = random_int(random),
                .delivery = random_value<Delivery>(random),
                .delays = random_ints(random)};
  c.seed = random->next();
  for (std::uint64_t i = random->below(4); i > 0; --i) {
    c.compare_meshes.push_back(random_ints(random));
  }
  return c;
}

}  // namespace shardfuzz
