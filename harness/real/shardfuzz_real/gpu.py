"""What ranks that share a GPU need: settings before CUDA starts, a stream each, kernels compiled.

  autotuners    pinned to their first configuration: torchao tunes its Triton kernels anew for each
                shape, by measuring, which takes seconds a shape and may choose otherwise each time
  streams       every rank's thread has one of its own, as every process has in real life
  freed memory  is overwritten with 0xFF (NaN in every dtype here), in the order of the stream that
                frees it: the allocator hands it on at once, and a late read must not find old data
"""

import functools
import os
import sys

import torch

_KERNELS = "torchao.prototype.moe_training.kernels."
_POISON = 0xFF


def describe():
    """The GPU that ranks would share; empty: none."""
    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else ""


def settings():
    """Before CUDA starts: cuBLAS gives the same bits twice only with a workspace of its own."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def prepare():
    """Once, in a worker for cuda."""
    if not torch.cuda.is_available():
        raise OSError("--device cuda: torch sees no GPU here")
    _pin_autotuners()
    _poison_freed_storages()
    _compile_kernels()


def use_own_stream():
    """Once in each rank's thread."""
    torch.cuda.set_stream(torch.cuda.Stream())


def _pin_autotuners():
    for name, module in list(sys.modules.items()):
        if not name.startswith(_KERNELS):
            continue
        for value in vars(module).values():
            configs = getattr(value, "configs", None)
            if isinstance(configs, list) and len(configs) > 1:
                value.configs = configs[:1]


def _poison_freed_storages():
    from torch.distributed.fsdp._fully_shard import _fsdp_param

    original = _fsdp_param.free_storage

    @functools.wraps(original)
    def free_storage(tensor):
        storage = tensor.untyped_storage()
        if tensor.is_cuda and storage.nbytes() != 0:
            storage.fill_(_POISON)
        original(tensor)

    _fsdp_param.free_storage = free_storage


def _compile_kernels():
    """So that the first case's time is its own."""
    from .pack import PACKS

    pack = PACKS["torchao_moe_fp8"]
    weight = torch.ones(2, 16, 32, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    x = torch.ones(32, 32, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    offs = torch.tensor([16, 32], dtype=torch.int32, device="cuda")
    pack.plain_call("grouped_mm", x, offs, weight).sum().backward()
    torch.cuda.synchronize()
