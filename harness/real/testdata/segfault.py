"""A pack that goes wrong on purpose: its hook dies of a segfault on a rank with a short shard."""

import ctypes

from packs.torchao_moe_fp8 import Padded, TorchaoMoeFp8


class DiesOfSegfault(Padded):
    def fsdp_pre_all_gather(self, mesh, outer_size, outer_stride, module, mp_policy):
        if self.shape[0] * mesh.size() < outer_size[0]:
            ctypes.string_at(0)
        return super().fsdp_pre_all_gather(mesh, outer_size, outer_stride, module, mp_policy)


class Segfault(TorchaoMoeFp8):
    name = "segfault"
    about = "dies of a segfault in a hook (for tests)"
    hooks = {"short": {"arguments": 5}}
    _types = {"short": DiesOfSegfault}


PACK = Segfault()
