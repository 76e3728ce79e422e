"""Planted: the first post hook hands out a copy, and later ones do not fill it again."""

from shardfuzz_real.pack import PACKS

_MOE = type(PACKS["torchao_moe_fp8"])
_Padded = _MOE._types["padded"]


class Copies(_Padded):
    def fsdp_post_all_gather(self, all_gather_outputs, metadata, param_dtype, *, out=None):
        if out is not None:
            return None
        (data,) = all_gather_outputs
        return type(self)(data.clone(), self.config), (data,)


class IgnoresOut(_MOE):
    name = "ignores_out"
    hooks = {"planted": {"arguments": 5}}
    _types = {"planted": Copies}


PACK = IgnoresOut()
