"""A pack that goes wrong on purpose: its hook never returns on a rank with a short shard."""

from packs.torchao_moe_fp8 import Padded, TorchaoMoeFp8


class LoopsForEver(Padded):
    def fsdp_pre_all_gather(self, mesh, outer_size, outer_stride, module, mp_policy):
        while self.shape[0] * mesh.size() < outer_size[0]:
            pass
        return super().fsdp_pre_all_gather(mesh, outer_size, outer_stride, module, mp_policy)


class Loops(TorchaoMoeFp8):
    name = "loops_for_ever"
    about = "never returns from a hook (for tests)"
    hooks = {"short": {"arguments": 5}}
    _types = {"short": LoopsForEver}


PACK = Loops()
