"""Planted: the rank that holds the last expert sends zeros in its place."""

from shardfuzz_real.pack import PACKS

_MOE = type(PACKS["torchao_moe_fp8"])
_Padded = _MOE._types["padded"]


class Drops(_Padded):
    def fsdp_pre_all_gather(self, mesh, outer_size, outer_stride, module, mp_policy):
        (data,), metadata = super().fsdp_pre_all_gather(
            mesh, outer_size, outer_stride, module, mp_policy
        )
        rows = self._data.shape[0]
        chunk = -(-outer_size[0] // mesh.size())
        if rows and mesh.get_local_rank() * chunk + rows == outer_size[0]:
            data = data.clone()
            data[rows - 1] = 0
        return (data,), metadata


class DropsLastExpert(_MOE):
    name = "drops_last_expert"
    hooks = {"planted": {"arguments": 5}}
    _types = {"planted": Drops}


PACK = DropsLastExpert()
