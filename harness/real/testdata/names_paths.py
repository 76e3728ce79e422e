"""Tells, as its type's name, which record_function and which pytree a run has."""

import torch
from shardfuzz_real.pack import Pack
from torch.distributed.fsdp._fully_shard import _fsdp_param_group


class NamesPaths(Pack):
    name = "names_paths"

    def sharded_type(self, hook):
        import torchao.prototype.moe_training.tensor as wrappers

        assert torch.profiler.record_function is _fsdp_param_group.record_function
        return f"{_fsdp_param_group.record_function.__name__} " f"{type(wrappers.pytree).__name__}"


PACK = NamesPaths()
