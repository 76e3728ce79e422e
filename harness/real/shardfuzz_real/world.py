"""Process groups and device meshes for simulated ranks.

torch.distributed keeps its state in one module-level object, `_world`. Ranks that are threads need
one each, and each mesh of a case needs its own, since the default group's size differs. Worlds are
kept for the life of the process: making one costs more than running a small case.

How it is known: torch.testing._internal.distributed.multi_threaded_pg does the same for PyTorch's
own tests; torch._C._distributed_c10d._set_thread_isolation_mode makes the C++ registry of groups
per thread.
"""

import itertools
import threading
from types import SimpleNamespace

import _shardfuzz
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.distributed.device_mesh import DeviceMesh

_FIELDS = {
    "default_pg": lambda: None,
    "pg_map": dict,
    "pg_names": dict,
    "pg_group_ranks": dict,
    "pg_backend_config": dict,
    "group_count": lambda: 0,
    "tags_to_pg": dict,
    "pg_to_tag": dict,
    "pg_coalesce_state": dict,
    "comms": list,
}


class _RankWorld:
    """Stands in for distributed_c10d._world: every field is the current thread's current
    world's."""

    def __init__(self):
        object.__setattr__(self, "_local", threading.local())

    def use(self, state):
        self._local.state = state

    def __getattr__(self, name):
        return getattr(self._local.state, name)

    def __setattr__(self, name, value):
        setattr(self._local.state, name, value)

    @property
    def pg_config_info(self):
        return []


_world = _RankWorld()
_meshes = threading.local()
_serial = itertools.count()
_serial_by_key = {}


def _new_state():
    return SimpleNamespace(**{name: make() for name, make in _FIELDS.items()})


def _make_backend(options, _):
    key = options.group_id
    ranks = list(options.global_ranks_in_group)
    if not ranks:  # the default group
        ranks = list(range(options.group_size))
    # Groups are named by their mesh dimension once it is known; FSDP2 makes those of an int
    # reshard.
    name = "world" if not options.global_ranks_in_group else "post_forward"
    return _shardfuzz.make_backend(options.group_rank, f"{_meshes.key}/{key}", name, ranks)


def install():
    """Once, before any rank thread uses torch.distributed."""
    torch._C._distributed_c10d._set_thread_isolation_mode(True)
    c10d._world = _world
    dist.Backend.register_backend(
        "shardfuzz", _make_backend, extended_api=True, devices=["cpu", "cuda"]
    )


def mesh_for(shape, dim_names, rank, device_type):
    """The device mesh of a case, on the calling rank's thread; made once for each shape."""
    key = (tuple(shape), tuple(dim_names), device_type)
    known = getattr(_meshes, "by_key", None)
    if known is None:
        known = _meshes.by_key = {}
    _meshes.key = key
    if key in known:
        state, mesh = known[key]
        _world.use(state)
        return mesh
    state = _new_state()
    # Group names are unique in the thread's C++ registry, so each world starts numbering elsewhere;
    # the same place on every rank, since names are how members find each other.
    if key not in _serial_by_key:
        _serial_by_key[key] = next(_serial)
    state.group_count = 100_000 * (1 + _serial_by_key[key])
    _world.use(state)
    world_size = 1
    for size in shape:
        world_size *= size
    dist.init_process_group("shardfuzz", store=dist.HashStore(), rank=rank, world_size=world_size)
    ranks = torch.arange(world_size).view(*shape)
    mesh = DeviceMesh(device_type, ranks, mesh_dim_names=tuple(dim_names))
    # Outermost last: on a mesh of one rank all dimensions share a group, and only replicas use it.
    for name in reversed(dim_names):
        _shardfuzz.rename_backend(
            mesh.get_group(name)._get_backend(torch.device(device_type)), name
        )
    known[key] = (state, mesh)
    return mesh
