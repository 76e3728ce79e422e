"""torchao's fp8 grouped-GEMM weight wrapper, in three versions of its pre-all-gather hook.

shipped  as torchao has it: five arguments, sends the local shard without padding
one_arg  as torchao had it in June 2025 (pytorch/ao#2413): one argument, no padding, never checked
padded   five arguments, pads to the size that FSDP2 gathers: the control that must pass

torchao 0.12 to 0.14 call the class ScaledGroupedMMTensor.
"""

import _shardfuzz
import torch
from shardfuzz_real.pack import Pack

try:
    from torchao.prototype.moe_training.config import Float8TrainingOpConfig
    from torchao.prototype.moe_training.tensor import Float8TrainingWeightWrapperTensor as Shipped
    from torchao.prototype.moe_training.utils import _quantize_then_scaled_grouped_mm

    _CONFIG = Float8TrainingOpConfig()
    _EXTRA = (_CONFIG,)

    def _multiply(x, w_t, offs):
        return _quantize_then_scaled_grouped_mm(x, w_t, offs=offs, config=_CONFIG)

except ImportError:
    from torchao.prototype.moe_training.conversion_utils import MoEScalingType
    from torchao.prototype.moe_training.tensor import ScaledGroupedMMTensor as Shipped

    _EXTRA = (MoEScalingType.FP8_ROWWISE,)

    def _multiply(x, w_t, offs):
        return torch._grouped_mm(x, Shipped(w_t, *_EXTRA), offs=offs)


class OneArgument(Shipped):
    """As of June 2025: no cast (pytorch/ao#2451 came later), a new wrapper at every gather."""

    def fsdp_pre_all_gather(self, mesh):
        return (self._data,), ()

    def fsdp_post_all_gather(self, all_gather_outputs, metadata, param_dtype, *, out=None):
        (data,) = all_gather_outputs
        return type(self)(data, *_EXTRA), (data,)


class Padded(Shipped):
    def fsdp_pre_all_gather(self, mesh, outer_size, outer_stride, module, mp_policy):
        data = self._data.to(mp_policy.param_dtype)
        rows = -(-outer_size[0] // mesh.size())
        if data.shape[0] == rows or data.shape[1:] != outer_size[1:]:
            return (data,), ()
        padded = data.new_empty((rows, *data.shape[1:]))
        padded[: data.shape[0]] = data
        _shardfuzz.write_tags(padded[data.shape[0] :])
        return (padded,), ()


class TorchaoMoeFp8(Pack):
    name = "torchao_moe_fp8"
    about = "torchao.prototype.moe_training's fp8 grouped-GEMM weight wrapper"
    hooks = {
        "shipped": {"arguments": 5},
        "one_arg": {"arguments": 1, "casts": False},
        "padded": {"arguments": 5, "control": True},
    }
    calls = ("grouped_mm", "mul", "grouped_mm_no_offs")
    dim_multiple = 16
    is_extension = True
    needs_param_dtype = True

    _types = {"shipped": Shipped, "one_arg": OneArgument, "padded": Padded}

    def build(self, data, hook):
        return self._types[hook](data, *_EXTRA)

    def plain(self, data, dtype, hook):
        return data.to(dtype)

    def plain_call(self, path, x, offs, w):
        if path == "grouped_mm":
            return _multiply(x, w.transpose(-2, -1), offs)
        return x * w

    def local_data(self, local):
        return local._data

    def gathered(self, unsharded):
        return (unsharded._data,)

    def sharded_type(self, hook):
        return self._types[hook].__name__

    unsharded_type = sharded_type


PACK = TorchaoMoeFp8()
