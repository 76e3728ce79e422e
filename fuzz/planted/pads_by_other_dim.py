"""Planted: the hook counts the rows to pad to on dim 1 instead of dim 0."""

from shardfuzz_real.pack import PACKS

_MOE = type(PACKS["torchao_moe_fp8"])
_Padded = _MOE._types["padded"]


class WrongRows(_Padded):
    def fsdp_pre_all_gather(self, mesh, outer_size, outer_stride, module, mp_policy):
        data = self._data.to(mp_policy.param_dtype)
        rows = max(-(-outer_size[1] // mesh.size()), data.shape[0])
        padded = data.new_zeros((rows, *data.shape[1:]))
        padded[: data.shape[0]] = data
        return (padded,), ()


class PadsByOtherDim(_MOE):
    name = "pads_by_other_dim"
    hooks = {"planted": {"arguments": 5}}
    _types = {"planted": WrongRows}


PACK = PadsByOtherDim()
