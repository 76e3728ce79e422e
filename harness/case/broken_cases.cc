// One row for each rule of validate(): the change to good_case() that breaks it, and the error.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harness/case/test_cases.h"

namespace shardfuzz {
namespace {

using Change = std::function<void(Case&)>;

class Table {
 public:
  void add(std::string name, std::string where, std::string word, const Change& change) {
    BrokenCase row{.name = std::move(name),
                   .c = good_case(),
                   .where = std::move(where),
                   .word = std::move(word)};
    change(row.c);
    rows_.push_back(std::move(row));
  }
  std::vector<BrokenCase> take() { return std::move(rows_); }

 private:
  std::vector<BrokenCase> rows_;
};

ParamSpec& norm(Case& c) { return c.groups[0].params[0]; }
ParamSpec& w1(Case& c) { return c.groups[1].params[0]; }
ParamSpec& w2(Case& c) { return c.groups[1].params[1]; }

ParamSpec plain_param(const std::string& name, std::vector<std::int64_t> shape) {
  return {.name = name, .shape = std::move(shape), .tied_to = {}};
}

void add_names(Table* t) {
  t->add("case_name_slash", "/name", "name", [](Case& c) { c.name = "../x"; });
  t->add("case_name_hidden", "/name", "name", [](Case& c) { c.name = ".x"; });
  t->add("case_name_long", "/name", "128", [](Case& c) { c.name.assign(129, 'a'); });
  t->add("origin_kind", "/origin/kind", "report", [](Case& c) { c.origin.kind = "reprot"; });
  t->add("group_name_capital", "/groups/1/name", "Moe", [](Case& c) { c.groups[1].name = "Moe"; });
  t->add("group_name_empty", "/groups/0/name", "name", [](Case& c) { c.groups[0].name = ""; });
  t->add("group_name_digit", "/groups/0/name", "1r", [](Case& c) { c.groups[0].name = "1r"; });
  t->add("group_name_long", "/groups/0/name", "63",
         [](Case& c) { c.groups[0].name.assign(65, 'a'); });
  t->add("group_name_twice", "/groups/1/name", "twice", [](Case& c) { c.groups[1].name = "root"; });
  t->add("param_name_dot", "/groups/0/params/0/name", "a.b", [](Case& c) { norm(c).name = "a.b"; });
  t->add("param_name_twice", "/groups/1/params/1/name", "twice",
         [](Case& c) { w2(c).name = "w1"; });
}

void add_mesh(Table* t) {
  t->add("mesh_zero", "/mesh/shape/1", "1..64", [](Case& c) { c.mesh.shape = {2, 0}; });
  t->add("mesh_negative", "/mesh/shape/0", "-2", [](Case& c) { c.mesh.shape = {-2, -2}; });
  t->add("mesh_size", "/mesh/shape/1", "65", [](Case& c) { c.mesh.shape = {1, 65}; });
  t->add("mesh_product", "/mesh/shape", "64", [](Case& c) { c.mesh.shape = {33, 2}; });
  t->add("mesh_no_dims", "/mesh/dim_names", "0 dimensions", [](Case& c) { c.mesh = {{}, {}}; });
  t->add("mesh_five_dims", "/mesh/dim_names", "5", [](Case& c) {
    c.mesh = {{1, 1, 1, 1, 1}, {"replicate", "shard", "tp", "ep", "ep"}};
  });
  t->add("mesh_lengths", "/mesh/dim_names", "1 names",
         [](Case& c) { c.mesh.dim_names = {"shard"}; });
  t->add("mesh_dim_unknown", "/mesh/dim_names/1", "did you mean 'shard'",
         [](Case& c) { c.mesh.dim_names[1] = "shards"; });
  t->add("mesh_dim_twice", "/mesh/dim_names/1", "twice", [](Case& c) {
    c.mesh.dim_names = {"shard", "shard"};
  });
  t->add("mesh_no_shard", "/mesh/dim_names", "no dimension is named", [](Case& c) {
    c.mesh = {{2}, {"replicate"}};
  });
  t->add("mesh_order", "/mesh/dim_names", "before", [](Case& c) {
    c.mesh.dim_names = {"shard", "replicate"};
  });
  t->add("mesh_sim_world", "/mesh/shape", "at most 16", [](Case& c) {
    c.environment.comm = "sim";
    c.mesh.shape = {1, 17};
  });
  t->add("mesh_tp", "/mesh/shape/1", "not supported by this version's targets yet", [](Case& c) {
    c.mesh = {{4, 2}, {"shard", "tp"}};
  });
  t->add("mesh_ep", "/mesh/shape/0", "not supported by this version's targets yet", [](Case& c) {
    c.mesh = {{2, 4}, {"ep", "shard"}};
  });
}

void add_groups(Table* t) {
  t->add("no_groups", "/groups", "0 groups", [](Case& c) { c.groups.clear(); });
  t->add("nine_groups", "/groups", "9 groups", [](Case& c) { c.groups.resize(9); });
  t->add("many_params", "/groups/1/params", "17", [](Case& c) { c.groups[1].params.resize(17); });
  t->add("empty_group", "/groups/1/params", "root", [](Case& c) { c.groups[1].params.clear(); });
  t->add("no_param_at_all", "/groups/0/params", "no parameter", [](Case& c) {
    c.groups.resize(1);
    c.groups[0].params.clear();
  });
  const std::string reshard = "/groups/1/reshard_after_forward";
  for (const int size : {0, -1, 3, 5, 8}) {
    t->add("reshard_" + std::to_string(size), reshard, "factor of the shard size 4",
           [size](Case& c) { c.groups[1].reshard_after_forward = size; });
  }
  t->add("policy_param_dtype", "/groups/0/mixed_precision/param_dtype", "fp8_e4m3",
         [](Case& c) { c.groups[0].mixed_precision.param_dtype = DType::kFloat8E4M3; });
  t->add("policy_reduce_dtype", "/groups/0/mixed_precision/reduce_dtype", "uint8",
         [](Case& c) { c.groups[0].mixed_precision.reduce_dtype = DType::kUInt8; });
  t->add("policy_output_dtype", "/groups/0/mixed_precision/output_dtype", "uint8",
         [](Case& c) { c.groups[0].mixed_precision.output_dtype = DType::kUInt8; });
  t->add("root_unused", "/groups/0/unused_on_ranks", "root",
         [](Case& c) { c.groups[0].unused_on_ranks = {0}; });
  t->add("unused_rank", "/groups/1/unused_on_ranks/1", "0..7", [](Case& c) {
    c.groups[1].unused_on_ranks = {0, 8};
  });
  t->add("unused_negative", "/groups/1/unused_on_ranks/0", "-1",
         [](Case& c) { c.groups[1].unused_on_ranks = {-1}; });
  t->add("unused_twice", "/groups/1/unused_on_ranks/1", "twice", [](Case& c) {
    c.groups[1].unused_on_ranks = {1, 1};
  });
}

void add_shapes(Table* t) {
  const std::string w = "/groups/1/params/0/";
  t->add("shape_empty", w + "shape", "0 dimensions", [](Case& c) { w1(c).shape.clear(); });
  t->add("shape_five", w + "shape", "5 dimensions", [](Case& c) { w1(c).shape.resize(5, 1); });
  t->add("shape_zero", w + "shape/0", "1..65536", [](Case& c) { w1(c).shape[0] = 0; });
  t->add("shape_negative", w + "shape/2", "-16", [](Case& c) { w1(c).shape[2] = -16; });
  t->add("shape_size", w + "shape/0", "65537", [](Case& c) { w1(c).shape[0] = 65537; });
  t->add("shape_elements", "/groups/0/params/0/shape", "67108864", [](Case& c) {
    norm(c).shape = {16385, 4096};
  });
  t->add("shape_overflow", "/groups/0/params/0/shape", "67108864", [](Case& c) {
    norm(c).shape = {65536, 65536, 65536, 65536};
  });
  t->add("shard_dim_high", w + "shard_dim", "0..2", [](Case& c) { w1(c).shard_dim = 3; });
  t->add("shard_dim_negative", w + "shard_dim", "-1", [](Case& c) { w1(c).shard_dim = -1; });
  t->add("dim_multiple_last", w + "shape/2", "multiple of 16",
         [](Case& c) { w1(c).shape[2] = 24; });
  t->add("dim_multiple_middle", w + "shape/1", "multiple of 16",
         [](Case& c) { w1(c).shape[1] = 8; });
  t->add("call_grouped_2d", w + "call", "3 dimensions", [](Case& c) { w1(c).shape = {32, 16}; });
  t->add("call_bmm_2d", "/groups/0/params/0/call", "3 dimensions",
         [](Case& c) { norm(c).call = CallPath::kBmm; });
  t->add("call_no_offs_2d", "/groups/0/params/0/call", "3 dimensions",
         [](Case& c) { norm(c).call = CallPath::kGroupedMmNoOffs; });
  t->add("call_linear_3d", "/groups/0/params/0/call", "2 dimensions", [](Case& c) {
    norm(c) = plain_param("norm", {2, 2, 2});
    norm(c).call = CallPath::kLinear;
  });
}

void add_packs(Table* t) {
  const std::string w = "/groups/1/params/0/";
  t->add("pack_unknown", w + "pack", "did you mean 'torchao_moe_fp8'",
         [](Case& c) { w1(c).pack = "torchao_moe_fp"; });
  t->add("pack_list", w + "pack", "plain, torchao_moe_fp8",
         [](Case& c) { w1(c).pack = "something else"; });
  t->add("hook_unknown", w + "hook", "shipped, one_arg or padded",
         [](Case& c) { w1(c).hook = "none"; });
  t->add("pack_dtype", w + "dtype", "fp32 or bf16", [](Case& c) { w1(c).dtype = DType::kFloat16; });
  t->add("pack_call", w + "call", "grouped_mm, ", [](Case& c) { w1(c).call = CallPath::kBmm; });
  t->add("needs_param_dtype", "/groups/1/mixed_precision/param_dtype", "torchao_moe_fp8",
         [](Case& c) { c.groups[1].mixed_precision.param_dtype.reset(); });
  const std::string tie = "/groups/1/params/1/tied_to";
  t->add("tie_unknown", tie, "earlier", [](Case& c) { w2(c).tied_to = "moe.w9"; });
  t->add("tie_self", tie, "earlier", [](Case& c) { w2(c).tied_to = "moe.w2"; });
  t->add("tie_later", "/groups/1/params/0/tied_to", "earlier",
         [](Case& c) { w1(c).tied_to = "moe.w2"; });
  t->add("tie_no_group", tie, "earlier", [](Case& c) { w2(c).tied_to = "w1"; });
  t->add("tie_chain", "/groups/1/params/2/tied_to", "tied itself", [](Case& c) {
    c.groups[1].params.push_back(w2(c));
    c.groups[1].params[2].name = "w3";
    c.groups[1].params[2].tied_to = "moe.w2";
  });
  t->add("tie_shape", tie, "another shape", [](Case& c) { w2(c).shape[0] = 4; });
  t->add("tie_dtype", tie, "another dtype", [](Case& c) { w2(c).dtype = DType::kFloat32; });
  t->add("tie_shard_dim", tie, "another shard_dim", [](Case& c) { w2(c).shard_dim = 1; });
  t->add("tie_pack", tie, "another pack", [](Case& c) {
    w2(c).pack = "plain";
    w2(c).hook = "none";
  });
  t->add("tie_hook", tie, "another hook", [](Case& c) { w2(c).hook = "padded"; });
  t->add("tie_grad", tie, "another requires_grad", [](Case& c) { w2(c).requires_grad = false; });
  t->add("tensor_parallel", w + "tensor_parallel_dim",
         "not supported by this version's targets yet",
         [](Case& c) { w1(c).tensor_parallel_dim = 0; });
}

void add_batch(Table* t) {
  t->add("tokens_negative", "/batch/tokens_per_expert", "0..4096",
         [](Case& c) { c.batch.tokens_per_expert = -1; });
  t->add("tokens_many", "/batch/tokens_per_expert", "4097",
         [](Case& c) { c.batch.tokens_per_expert = 4097; });
  t->add("top_k_zero", "/batch/top_k", "1..64", [](Case& c) { c.batch.top_k = 0; });
  t->add("top_k_many", "/batch/top_k", "65", [](Case& c) { c.batch.top_k = 65; });
  t->add("by_rank_length", "/batch/tokens_by_rank", "7 entries for 8 ranks",
         [](Case& c) { c.batch.tokens_by_rank.resize(7); });
  t->add("by_rank_negative", "/batch/tokens_by_rank/3", "-1",
         [](Case& c) { c.batch.tokens_by_rank[3] = -1; });
  t->add("by_rank_many", "/batch/tokens_by_rank/0", "0..64",
         [](Case& c) { c.batch.tokens_by_rank[0] = 65; });
  t->add("empty_expert", "/batch/empty_experts/1", "0..2", [](Case& c) {
    c.batch.empty_experts = {1, 3};
  });
  t->add("empty_negative", "/batch/empty_experts/0", "-1",
         [](Case& c) { c.batch.empty_experts = {-1}; });
  t->add("empty_twice", "/batch/empty_experts/2", "twice", [](Case& c) {
    c.batch.empty_experts = {1, 0, 1};
  });
  t->add("empty_without_experts", "/batch/empty_experts", "no parameter has experts",
         [](Case& c) { c.groups.resize(1); });
}

void add_operations(Table* t) {
  const auto one = [t](const std::string& name, const std::string& where, const std::string& word,
                       const std::vector<Operation>& operations) {
    t->add(name, where, word, [&](Case& c) { c.operations = operations; });
  };
  one("op_group_unknown", "/operations/0/group", "did you mean 'moe'",
      {{OpKind::kReshard, "mo", "", false}});
  one("op_group_missing", "/operations/0/group", "needs a group",
      {{OpKind::kUnshard, "", "", true}});
  one("op_group_extra", "/operations/1/group", "takes no group",
      {{}, {OpKind::kStep, "moe", "", false}});
  one("op_param_unknown", "/operations/0/param", "w1 or w2",
      {{OpKind::kFreeze, "moe", "norm", false}});
  one("op_param_extra", "/operations/0/param", "takes no param",
      {{OpKind::kReshard, "moe", "w1", false}});
  one("op_flag_extra", "/operations/0/flag", "takes no flag", {{OpKind::kStep, "", "", true}});
  one("op_wait_alone", "/operations/0", "async", {{OpKind::kWaitUnshard, "moe", "", false}});
  one("op_wait_sync", "/operations/1", "async",
      {{OpKind::kUnshard, "moe", "", false}, {OpKind::kWaitUnshard, "moe", "", false}});
  one("op_wait_other_group", "/operations/1", "'root'",
      {{OpKind::kUnshard, "moe", "", true}, {OpKind::kWaitUnshard, "root", "", false}});
  one("op_wait_twice", "/operations/2", "async",
      {{OpKind::kUnshard, "moe", "", true},
       {OpKind::kWaitUnshard, "moe", "", false},
       {OpKind::kWaitUnshard, "moe", "", false}});
  one("op_load_first", "/operations/0", "save",
      {{OpKind::kLoad, "", "", false}, {OpKind::kSave, "", "", false}});
  one("op_many", "/operations", "65", std::vector<Operation>(65));
  t->add("op_all_reduce", "/operations/0", "HSDP", [](Case& c) {
    c.mesh = {{8}, {"shard"}};
    c.operations = {{OpKind::kAllReduce, "", "", true}};
  });
}

void add_rest(Table* t) {
  t->add("steps_zero", "/steps", "1..100", [](Case& c) { c.steps = 0; });
  t->add("steps_many", "/steps", "101", [](Case& c) { c.steps = 101; });
  t->add("lr_low", "/optimizer/lr_log2", "-31", [](Case& c) { c.optimizer.lr_log2 = -31; });
  t->add("lr_high", "/optimizer/lr_log2", "-30..10", [](Case& c) { c.optimizer.lr_log2 = 11; });
  t->add("change_points", "/schedule/change_points", "-1",
         [](Case& c) { c.schedule.change_points = -1; });
  t->add("delays_length", "/schedule/delays", "9 entries for 8 ranks",
         [](Case& c) { c.schedule.delays.resize(9); });
  t->add("delay_long", "/schedule/delays/2", "0..1000",
         [](Case& c) { c.schedule.delays[2] = 1001; });
  t->add("delay_negative", "/schedule/delays/0", "-1", [](Case& c) { c.schedule.delays[0] = -1; });
  t->add("compare_empty", "/compare_meshes/1", "0 dimensions",
         [](Case& c) { c.compare_meshes[1].clear(); });
  t->add("compare_three", "/compare_meshes/0", "3 dimensions", [](Case& c) {
    c.compare_meshes[0] = {1, 1, 1};
  });
  t->add("compare_zero", "/compare_meshes/1/0", "1..64", [](Case& c) {
    c.compare_meshes[1] = {0, 2};
  });
  t->add("compare_large", "/compare_meshes/0", "64", [](Case& c) {
    c.compare_meshes[0] = {64, 2};
  });
  t->add("compare_sim", "/compare_meshes/0", "16", [](Case& c) {
    c.environment.comm = "sim";
    c.compare_meshes[0] = {17};
  });
  t->add("compare_many", "/compare_meshes", "17",
         [](Case& c) { c.compare_meshes.resize(17, {1}); });
  t->add("target", "/environment/target", "real", [](Case& c) { c.environment.target = "reel"; });
  t->add("comm", "/environment/comm", "nccl", [](Case& c) { c.environment.comm = "gloo"; });
  t->add("device", "/environment/device", "cuda", [](Case& c) { c.environment.device = "gpu"; });
  t->add("nccl_on_cpu", "/environment/device", "cuda",
         [](Case& c) { c.environment.device = "cpu"; });
  t->add("verdict", "/expect/verdict", "pass, fail", [](Case& c) { c.expect.verdict = "failed"; });
  t->add("verdict_error", "/expect/verdict", "refused",
         [](Case& c) { c.expect.verdict = "error"; });
}

}  // namespace

std::vector<BrokenCase> broken_cases() {
  Table table;
  add_names(&table);
  add_mesh(&table);
  add_groups(&table);
  add_shapes(&table);
  add_packs(&table);
  add_batch(&table);
  add_operations(&table);
  add_rest(&table);
  return table.take();
}

}  // namespace shardfuzz
