"""torchao.float8's linear weight with fp8 all-gather
(Float8LinearConfig.enable_fsdp_float8_all_gather).

The sharded weight stays in the original dtype; its hook reduces the largest absolute value over the
mesh, casts the shard to fp8 with the scale that follows, and sends one byte an element. The hook
has one argument (torchao 0.18), so nothing checks what it sends: a rank with fewer rows sends less,
and a rank without rows cannot even take its largest value (pytorch/ao#1938, pytorch/ao#3982).
"""

import torch
from shardfuzz_real.pack import Pack
from torch import nn
from torchao.float8.config import Float8LinearConfig
from torchao.float8.float8_linear import Float8Linear, matmul_with_hp_or_float8_args
from torchao.float8.float8_scaling_utils import hp_tensor_to_float8_dynamic
from torchao.float8.float8_training_tensor import Float8TrainingTensor, GemmInputRole

_CONFIG = Float8LinearConfig(enable_fsdp_float8_all_gather=True)
_FP8 = _CONFIG.cast_config_weight.target_dtype


def _convert(data):
    """As convert_to_float8_training does with a linear layer whose weight is `data`."""
    with torch.device("meta"):
        linear = nn.Linear(data.shape[1], data.shape[0], bias=False)
    linear.weight = nn.Parameter(data)
    return Float8Linear.from_float(linear, config=_CONFIG)


_MM_CONFIG = _convert(torch.zeros(16, 16)).linear_mm_config


class TorchaoFloat8Linear(Pack):
    name = "torchao_float8_linear"
    about = "torchao.float8's linear weight with fp8 all-gather"
    hooks = {"shipped": {"arguments": 1}}
    calls = ("linear",)
    dim_multiple = 16
    is_extension = True
    gathers_values = False
    gathered_item_bytes = 1
    hook_all_reduce_elements = 1

    def build(self, data, hook):
        return _convert(data).weight.data

    def call(self, path, x, offs, w):
        # Float8Linear.forward without a bias.
        return matmul_with_hp_or_float8_args.apply(x, w.t(), _MM_CONFIG, _CONFIG)

    def local_data(self, local):
        return getattr(local, "_tensor", local)

    def sharded_type(self, hook):
        return "WeightWithDynamicFloat8CastTensor"

    def unsharded_type(self, hook):
        return "Float8TrainingTensor"

    def gathered(self, unsharded):
        return (unsharded._data,)

    def declared(self, hook, padded_shape, orig_dtype, param_dtype):
        return [(tuple(padded_shape), _FP8)]

    def plain(self, data, dtype, hook):
        # The cast comes before param_dtype, as on the ranks; the largest value of all shards is
        # that of the whole.
        whole = hp_tensor_to_float8_dynamic(
            data, _FP8, _MM_CONFIG, gemm_input_role=GemmInputRole.WEIGHT
        )
        return Float8TrainingTensor(
            whole._data, whole._scale, dtype, _MM_CONFIG, GemmInputRole.WEIGHT
        )


PACK = TorchaoFloat8Linear()
