"""A pack that goes wrong on purpose: its hook takes memory without end on a rank with a short
shard.

At most 8 GiB, so that a broken watch does not eat the machine.
"""

from packs.torchao_moe_fp8 import Padded, TorchaoMoeFp8

_CHUNK_BYTES = 64 << 20
_CHUNKS_MAX = 128


class EatsMemory(Padded):
    def fsdp_pre_all_gather(self, mesh, outer_size, outer_stride, module, mp_policy):
        if self.shape[0] * mesh.size() < outer_size[0]:
            eaten = [b"x" * _CHUNK_BYTES for _ in range(_CHUNKS_MAX)]
            del eaten
        return super().fsdp_pre_all_gather(mesh, outer_size, outer_stride, module, mp_policy)


class Eats(TorchaoMoeFp8):
    name = "eats_memory"
    about = "takes memory without end in a hook (for tests)"
    hooks = {"short": {"arguments": 5}}
    _types = {"short": EatsMemory}


PACK = Eats()
