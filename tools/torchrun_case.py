"""Runs a case file the ordinary way: one process a rank under torchrun, gloo, nothing recorded.

The other side of tools/bench. Usage:
  python -m torch.distributed.run --standalone --nproc_per_node=N tools/torchrun_case.py CASE
  FP8_LIBRARY

CASE is JSON with all fields (`shardfuzz cases full`); FP8_LIBRARY holds the CPU kernels of the fp8
operators. Gloo has no AVG, so FSDP2 is told to sum and divide.
"""

import json
import os
import sys
import types

import numpy as np
import torch
import torch.distributed as dist

HERE = os.path.dirname(os.path.abspath(__file__))


def _mix64(x):
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _fill(tensor, seed, place, value_range, integer):
    stream = np.uint64(hash((seed, place)) & 0xFFFFFFFFFFFFFFFF)
    with np.errstate(over="ignore"):
        words = _mix64(stream + np.arange(tensor.numel(), dtype=np.uint64))
    values = (words % np.uint64(2 * value_range + 1)).astype(np.float32) - value_range
    tensor.view(-1).copy_(torch.from_numpy(values))


def _stand_in():
    """What the worker's built-in module offers, without a recorder behind it."""
    module = types.ModuleType("_shardfuzz")
    module.next_index = lambda: 0
    module.set_place = lambda *_: None
    module.note_raised = lambda *_: None
    module.digest = lambda _: ""
    module.write_tags = lambda _: None
    module.count_tags = lambda _: 0
    module.fill = _fill
    module.make_backend = module.rename_backend = None
    return module


def main():
    case_path, library = sys.argv[1], sys.argv[2]
    sys.modules["_shardfuzz"] = _stand_in()
    sys.path.insert(0, os.path.join(HERE, "..", "harness", "real"))
    torch.set_num_threads(1)
    from shardfuzz_real.start import _import_torchao

    _import_torchao()
    torch.ops.load_library(library)
    from shardfuzz_real import pack, run, world

    pack.load_built_in(os.path.join(HERE, "..", "harness", "real", "packs"))
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    world.mesh_for = lambda shape, names, _rank, device: dist.init_device_mesh(
        device, tuple(shape), mesh_dim_names=tuple(names)
    )
    with open(case_path, encoding="utf-8") as file:
        case = json.load(file)
    program = run.RankProgram(case, rank, "cpu")
    build = program.build

    def build_with_sums():
        build()
        for module in program.modules.values():
            module.set_force_sum_reduction_for_comms(True)

    program.build = build_with_sums
    program.run()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
