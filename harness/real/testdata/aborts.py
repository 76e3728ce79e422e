"""A pack that goes wrong on purpose: its hook ends the process on a rank with a short shard."""

import os

from packs.torchao_moe_fp8 import Padded, TorchaoMoeFp8


class Aborts(Padded):
    def fsdp_pre_all_gather(self, mesh, outer_size, outer_stride, module, mp_policy):
        if self.shape[0] * mesh.size() < outer_size[0]:
            os.abort()
        return super().fsdp_pre_all_gather(mesh, outer_size, outer_stride, module, mp_policy)


class Leaves(Padded):
    def fsdp_pre_all_gather(self, mesh, outer_size, outer_stride, module, mp_policy):
        if self.shape[0] * mesh.size() < outer_size[0]:
            os._exit(0)
        return super().fsdp_pre_all_gather(mesh, outer_size, outer_stride, module, mp_policy)


class Ends(TorchaoMoeFp8):
    name = "aborts"
    about = "aborts or leaves in a hook (for tests)"
    hooks = {"abort": {"arguments": 5}, "leave": {"arguments": 5}}
    _types = {"abort": Aborts, "leave": Leaves}


PACK = Ends()
