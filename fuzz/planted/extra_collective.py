"""Planted: ranks with a whole shard exchange something that a short rank does not know of."""

import torch
import torch.distributed as dist
from shardfuzz_real.pack import PACKS

_MOE = type(PACKS["torchao_moe_fp8"])
_Padded = _MOE._types["padded"]


class Exchanges(_Padded):
    def fsdp_pre_all_gather(self, mesh, outer_size, outer_stride, module, mp_policy):
        inputs, metadata = super().fsdp_pre_all_gather(
            mesh, outer_size, outer_stride, module, mp_policy
        )
        if self._data.shape[0] == inputs[0].shape[0] and mesh.size() > 1:
            dist.all_reduce(torch.ones(1), group=mesh.get_group())
        return inputs, metadata


class ExtraCollective(_MOE):
    name = "extra_collective"
    hooks = {"planted": {"arguments": 5}}
    _types = {"planted": Exchanges}


PACK = ExtraCollective()
