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
      {"mixed-reduce-dtype", "AssertionError", "FSDP expects uniform reduce dtype",
       "_fsdp_param_group.py:_init_mp_dtypes", "torch 2.11 _fsdp_param_group.py, _init_mp_dtypes"},
      {"grouped-mm-expanded-gradient", "RuntimeError", "expected mat_a stride along", "",
       "ATen native/GroupedMMUtils.h: an operand's strides must be multiples of 16 bytes"},
      {"grouped-mm-alignment", "RuntimeError", "strides should be multiple of 16 bytes", "",
       "ATen native/GroupedMMUtils.h: an operand's strides must be multiples of 16 bytes"},
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
