#include "harness/oracle/refused_table.h"

namespace shardfuzz {

const std::vector<Refusal>& refused_table() {
  static const std::vector<Refusal> table{
      {"uneven-nonzero-dim", "NotImplementedError", "FSDP does not support uneven sharding on dim",
       "_fsdp_param.py:_init_sharded_param", "torch 2.11 _fsdp_param.py, _init_sharded_param"},
      {"int-reshard-extension", "NotImplementedError", "", "_fsdp_param.py:all_gather_inputs",
       "torch 2.11 _fsdp_param.py, all_gather_inputs, SHARDED_POST_FORWARD with an extension"},
      {"int-reshard-many-outputs", "AssertionError", "Expected 1 all_gather_output, got",
       "_fsdp_param.py:to_sharded_post_forward",
       "torch 2.11 _fsdp_param.py, to_sharded_post_forward"},
      {"mixed-original-dtype", "AssertionError", "FSDP expects uniform original parameter dtype",
       "_fsdp_param_group.py:_init_mp_dtypes", "torch 2.11 _fsdp_param_group.py, _init_mp_dtypes"},
      // FSDP2 also asks for one reduce dtype, which a group of one policy always has.
      {"mixed-gradient-dtype", "AssertionError",
       "FSDP reduce-scatter expects uniform gradient dtype but got",
       "_fsdp_common.py:_raise_assert_with_print",
       "torch 2.11 _fsdp_collectives.py, foreach_reduce: a hook that does not cast beside one that "
       "does"},
      // The same file says "Invalid strides/sizes" to an expanded gradient, which no case makes,
      // and to a batch without rows, which is no refusal: it is not listed.
      {"grouped-mm-alignment", "RuntimeError", "strides should be multiple of 16 bytes", "",
       "torch 2.11 ATen/native/GroupedMMUtils.h: rows must be multiples of 16 bytes"},
      {"fp8-grouped-mm-dtype", "AssertionError", "A must be float32 or bfloat16",
       "fp8_grouped_mm.py:forward", "torchao 0.18 fp8_grouped_mm.py: param_dtype fp16"},
      {"fp8-token-groups", "RuntimeError", "expected input tensor dynamic dimension byte size",
       "fp8_grouped_mm.py:backward",
       "torch 2.11 GroupMM kernels: each expert's rows must be a multiple of 16"},
      {"scales-nonzero-dim", "NotImplementedError", "ScaledRows can be sharded on dim 0 only",
       "data_and_scales.py:fsdp_pre_all_gather", "harness/real/packs/data_and_scales.py"},
  };
  return table;
}

const Refusal* find_refusal(const Raised& raised) {
  for (const Refusal& row : refused_table()) {
    if (raised.type != row.type) continue;
    if (!row.where.empty() && raised.where != row.where) continue;
    const bool matches = row.message.empty()
                             ? raised.message.empty()
                             : raised.message.find(row.message) != std::string::npos;
    if (matches) return &row;
  }
  return nullptr;
}

}  // namespace shardfuzz
