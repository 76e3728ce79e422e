"""Planted: an extension that sends data and scales, with the scales one row further on."""

import torch
from shardfuzz_real.pack import PACKS

_Base = type(PACKS["data_and_scales"])
_Rows = type(PACKS["data_and_scales"].build(torch.zeros(2, 2), "padded"))


class Rolled(_Rows):
    def fsdp_pre_all_gather(self, mesh):
        (data, scales), metadata = super().fsdp_pre_all_gather(mesh)
        return (data, torch.roll(scales, 1, 0)), metadata


class ScaleOfAnotherRow(_Base):
    name = "scale_of_another_row"
    hooks = {"planted": {"arguments": 1}}

    def build(self, data, hook):
        return Rolled(data, data.shape)

    def sharded_type(self, hook):
        return "Rolled"


PACK = ScaleOfAnotherRow()
