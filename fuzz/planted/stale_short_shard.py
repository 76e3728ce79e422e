"""Planted: a short rank sends, at every step, the padded shard that it made at the first."""

from shardfuzz_real.pack import PACKS

_MOE = type(PACKS["torchao_moe_fp8"])
_Padded = _MOE._types["padded"]


class Stale(_Padded):
    def fsdp_pre_all_gather(self, mesh, outer_size, outer_stride, module, mp_policy):
        inputs, metadata = super().fsdp_pre_all_gather(
            mesh, outer_size, outer_stride, module, mp_policy
        )
        if inputs[0].shape != self._data.shape:
            kept = getattr(module, "_planted_first", None)
            if kept is None or kept.shape != inputs[0].shape:
                module._planted_first = kept = inputs[0].clone()
            inputs = (kept,)
        return inputs, metadata


class StaleShortShard(_MOE):
    name = "stale_short_shard"
    hooks = {"planted": {"arguments": 5}}
    _types = {"planted": Stale}


PACK = StaleShortShard()
