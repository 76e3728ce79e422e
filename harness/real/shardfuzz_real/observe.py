"""What is recorded of real FSDP2, and where. Nothing here changes what PyTorch does.

Each wrapper calls the original with the same arguments and writes events for the thread's Rank:

  FSDPParam.all_gather_inputs           -> pre_all_gather (what a rank is about to send)
  _get_param_all_gather_inputs          -> the same for parameters on the foreach fast path
  <subclass>.fsdp_pre_all_gather        -> the same, written before PyTorch's own check can raise
  FSDPParam.init_unsharded_param        -> unsharded (the view, its storage, its bytes by rank)
  FSDPParam.to_sharded[_post_forward]   -> storage at "reshard"

Events are tuples kept per rank; the worker turns them into JSON when the run is over.
"""

import functools
import inspect
import threading

import _shardfuzz
import torch
from torch.distributed.fsdp._fully_shard import _fsdp_collectives as collectives
from torch.distributed.fsdp._fully_shard._fsdp_param import FSDPParam, ShardedState

_local = threading.local()

_DTYPE_NAMES = {}


def dtype_name(dtype):
    name = _DTYPE_NAMES.get(dtype)
    if name is None:
        name = _DTYPE_NAMES[dtype] = str(dtype).removeprefix("torch.")
    return name


class Watched:
    """A parameter under observation: its names in the case and the facts that events repeat."""

    __slots__ = (
        "declared",
        "fsdp",
        "group",
        "hook",
        "name",
        "pack",
        "shard_dim",
        "spec",
        "written",
    )

    def __init__(self, fsdp, group, spec, pack):
        self.fsdp, self.group, self.spec, self.pack = fsdp, group["name"], spec, pack
        self.name, self.hook, self.shard_dim = spec["name"], spec["hook"], spec["shard_dim"]
        self.written = False
        self.declared = None


class Rank:
    """What one rank records. `watched` maps id(FSDPParam) to Watched."""

    def __init__(self, rank):
        self.rank, self.step, self.operation, self.phase = rank, -1, -1, "init"
        self.events = []
        self.watched = {}
        self.current = None

    def emit(self, kind, data):
        self.events.append(
            (_shardfuzz.next_index(), self.rank, self.step, self.operation, self.phase, kind, data)
        )

    def place(self, step, operation, phase):
        self.step, self.operation, self.phase = step, operation, phase
        _shardfuzz.set_place(self.rank, step, operation, phase)


def start(rank):
    _local.rank = Rank(rank)
    return _local.rank


def stop():
    _local.rank = None


def _now():
    return getattr(_local, "rank", None)


def note(tensor, with_digest=True):
    return {
        "shape": list(tensor.shape),
        "dtype": dtype_name(tensor.dtype),
        "bytes": tensor.numel() * tensor.element_size(),
        "digest": _shardfuzz.digest(tensor) if with_digest else "",
    }


def _local_rows(watched):
    """Rows (along the shard dim) that belong to this rank."""
    return watched.fsdp.sharded_size[watched.shard_dim]


def _dtypes(fsdp):
    orig = fsdp.sharded_param.dtype
    return orig, getattr(fsdp, "param_dtype", None)


def _write_pre_all_gather(rank, watched, inputs, arguments):
    fsdp, pack = watched.fsdp, watched.pack
    if watched.declared is None:
        orig, param_dtype = _dtypes(fsdp)
        watched.declared = [
            {
                "shape": list(shape),
                "dtype": dtype_name(dtype),
                "bytes": _size(shape) * dtype.itemsize,
                "digest": "",
            }
            for shape, dtype in pack.declared(
                watched.hook, fsdp.padded_sharded_param_size, orig, param_dtype
            )
        ]
    post_forward = fsdp.sharded_state == ShardedState.SHARDED_POST_FORWARD
    rows_digest = local_digest = ""
    first = inputs[0]
    if not post_forward:
        if first.dim() != len(fsdp.sharded_size):  # the plain path sends it flat
            first = first.view(fsdp.padded_sharded_param_size)
        rows = _local_rows(watched)
        if first.shape[watched.shard_dim] >= rows:
            rows_digest = _shardfuzz.digest(first.narrow(watched.shard_dim, 0, rows))
        if pack.gathers_values:
            local = pack.local_data(fsdp._sharded_local_tensor)
            local_digest = _shardfuzz.digest(local.to(inputs[0].dtype))
    rank.emit(
        "pre_all_gather",
        {
            "group": watched.group,
            "param": watched.name,
            "hook_arguments": arguments,
            "from_post_forward": post_forward,
            "inputs": [note(t) for t in inputs],
            "declared": watched.declared,
            "rows_digest": rows_digest,
            "local_digest": local_digest,
        },
    )
    watched.written = True


def _size(shape):
    total = 1
    for dim in shape:
        total *= dim
    return total


def _wrap_inputs_property():
    original = FSDPParam.all_gather_inputs.fget

    def all_gather_inputs(self):
        rank = _now()
        watched = rank and rank.watched.get(id(self))
        if not watched:
            return original(self)
        rank.current, watched.written = watched, False
        inputs = original(self)
        if not watched.written:
            _write_pre_all_gather(rank, watched, [_shaped(self, t) for t in inputs], 0)
        return inputs

    FSDPParam.all_gather_inputs = property(all_gather_inputs)


def _shaped(fsdp, flat):
    """The plain path's flat input in the padded shard's shape."""
    shape = fsdp.padded_sharded_param_size
    return flat.view(shape) if flat.numel() == shape.numel() else flat


def _wrap_foreach_path():
    original = collectives._get_param_all_gather_inputs

    @functools.wraps(original)
    def get_param_all_gather_inputs(fsdp_params):
        rank = _now()
        if rank is None:
            return original(fsdp_params)
        for fsdp in fsdp_params:
            if watched := rank.watched.get(id(fsdp)):
                watched.written = False
        result = original(fsdp_params)
        for fsdp, inputs in zip(fsdp_params, result):
            watched = rank.watched.get(id(fsdp))
            if watched and not watched.written:
                _write_pre_all_gather(rank, watched, [_shaped(fsdp, t) for t in inputs], 0)
        rank.current = None
        return result

    collectives._get_param_all_gather_inputs = get_param_all_gather_inputs


def watch_hooks(tensor_type):
    """Wraps a subclass's pre-all-gather hook, once for each class; inspect.signature still sees
    it."""
    original = tensor_type.__dict__.get("fsdp_pre_all_gather")
    if original is None:
        for base in tensor_type.__mro__[1:]:
            if "fsdp_pre_all_gather" in base.__dict__:
                watch_hooks(base)
                return
        return
    if getattr(original, "_shardfuzz_wrapped", False):
        return
    arguments = original.__code__.co_argcount - 1

    @functools.wraps(original)
    def fsdp_pre_all_gather(self, *args, **kwargs):
        result = original(self, *args, **kwargs)
        rank = _now()
        if rank is not None and rank.current is not None:
            _write_pre_all_gather(rank, rank.current, list(result[0]), arguments)
        return result

    fsdp_pre_all_gather._shardfuzz_wrapped = True
    # PyTorch asks for the signature at each gather; following __wrapped__ would cost it more.
    fsdp_pre_all_gather.__signature__ = inspect.signature(original)
    tensor_type.fsdp_pre_all_gather = fsdp_pre_all_gather


def _slots(watched, data):
    """Digest of each shard rank's rows in the gathered data."""
    fsdp, dim = watched.fsdp, watched.shard_dim
    world = fsdp.mesh_info.shard_mesh_size
    total = fsdp._orig_size[dim]
    chunk = -(-total // world) if total else 0
    digests = []
    for i in range(world):
        start_row = min(i * chunk, total)
        rows = min(chunk, total - start_row)
        fits = data.dim() > dim and start_row + rows <= data.shape[dim]
        digests.append(_shardfuzz.digest(data.narrow(dim, start_row, rows)) if fits else "")
    return digests


def _needed_bytes(tensor):
    if tensor.numel() == 0:
        return 0
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return (tensor.storage_offset() + reach + 1) * tensor.element_size()


def _write_unsharded(rank, watched):
    param = watched.fsdp._unsharded_param
    value = param.data
    data = watched.pack.gathered(value)[0]
    slots_data = watched.pack.slots_data(value, watched.fsdp.all_gather_outputs)
    storage = data.untyped_storage().nbytes()
    needed = _needed_bytes(data)
    readable = storage >= needed
    rank.emit(
        "unsharded",
        {
            "group": watched.group,
            "param": watched.name,
            "shape": list(param.shape),
            "stride": list(param.stride()),
            "dtype": dtype_name(param.dtype),
            "type": type(value).__name__,
            "expected_type": watched.pack.unsharded_type(watched.hook),
            "storage_bytes": storage,
            "needed_bytes": needed,
            "requires_grad": param.requires_grad,
            "slots": _slots(watched, slots_data) if readable else [],
            "tags": _shardfuzz.count_tags(data) if readable else 0,
        },
    )


def _wrap_unsharded():
    original = FSDPParam.init_unsharded_param

    @functools.wraps(original)
    def init_unsharded_param(self):
        rank = _now()
        watched = rank and rank.watched.get(id(self))
        if watched:
            rank.current = watched
        original(self)
        if watched:
            _shardfuzz.watch_unsharded(
                rank.rank, [*self.all_gather_outputs, *self._unsharded_inner_tensors]
            )
            _write_unsharded(rank, watched)
            rank.current = None

    FSDPParam.init_unsharded_param = init_unsharded_param


def _storage_bytes(tensors):
    seen = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        seen[id(storage) if storage.nbytes() == 0 else storage.data_ptr()] = storage.nbytes()
    return sum(seen.values())


def _gradient_bytes(fsdp):
    """Of the unsharded gradients that the parameter holds."""
    unsharded = getattr(fsdp, "_unsharded_param", None)
    gradients = (fsdp.unsharded_accumulated_grad, None if unsharded is None else unsharded.grad)
    return sum(g.numel() * g.element_size() for g in gradients if g is not None)


def write_storage(rank, watched, at):
    fsdp = watched.fsdp
    kept = getattr(fsdp, "_sharded_post_forward_param_data", None)
    rank.emit(
        "storage",
        {
            "group": watched.group,
            "param": watched.name,
            "at": at,
            "unsharded_bytes": _storage_bytes(
                [*fsdp.all_gather_outputs, *fsdp._unsharded_inner_tensors]
            ),
            "post_forward_bytes": kept.untyped_storage().nbytes() if kept is not None else 0,
            "gradient_bytes": _gradient_bytes(fsdp),
        },
    )


def _wrap_reshard(name):
    original = getattr(FSDPParam, name)

    @functools.wraps(original)
    def reshard(self):
        rank = _now()
        watched = rank and rank.watched.get(id(self))
        if watched:
            rank.current = watched
        original(self)
        if watched:
            write_storage(rank, watched, "reshard")
            rank.current = None

    setattr(FSDPParam, name, reshard)


def install():
    """Once in the process, after torch is imported."""
    _wrap_inputs_property()
    _wrap_foreach_path()
    _wrap_unsharded()
    _wrap_reshard("to_sharded")
    _wrap_reshard("to_sharded_post_forward")


def tag_padding(watched):
    """Writes tagged NaNs into the padding of the local shard: no tag may reach a result."""
    fsdp = watched.fsdp
    data = fsdp._sharded_param_data
    padded = watched.pack.local_data(data) if type(data) is not torch.Tensor else data
    real = _size(fsdp.sharded_size)
    if watched.shard_dim == 0 and padded.numel() > real and padded.is_floating_point():
        _shardfuzz.write_tags(padded.view(-1).narrow(0, real, padded.numel() - real))
