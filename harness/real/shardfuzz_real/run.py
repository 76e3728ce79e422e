"""What one rank does with one case; the thread's Rank records it."""

import json
import re
import traceback

import _shardfuzz
import torch
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.distributed.tensor import Shard

from . import model as models
from . import observe, world
from .pack import DTYPES, PACKS


def _policy(mixed):
    dtype = lambda name: DTYPES[name] if name else None  # noqa: E731
    return MixedPrecisionPolicy(
        param_dtype=dtype(mixed["param_dtype"]),
        reduce_dtype=dtype(mixed["reduce_dtype"]),
        output_dtype=dtype(mixed["output_dtype"]),
        cast_forward_inputs=mixed["cast_forward_inputs"],
    )


class RankProgram:
    def __init__(self, case, rank, device):
        self.case, self.rank, self.device = case, rank, device
        self.log = observe.start(rank)
        self.losses, self.micro, self.saved, self.handles = [], 0, None, {}
        self.forwards = []  # (step, micro, {param key: local shard}) for the reference
        self.gradients = []  # (step, operation, {param key: gradient}) for the reference
        self.updates = []  # (step, operation, shards before, momenta, gradients, shards after)
        self.inputs = []  # of each forward, as models.inputs_of gives them
        self.fulls = []  # (step, param key, local shard, full_tensor())
        self.outputs = []  # (step, micro, [digest])

    # -- building ---------------------------------------------------------------------------------
    def build(self):
        case = self.case
        self.mesh = world.mesh_for(
            case["mesh"]["shape"], case["mesh"]["dim_names"], self.rank, self.device
        )

        def make(group, param, data):
            tensor = PACKS[param["pack"]].build(data.to(self.device), param["hook"])
            if hasattr(tensor, "fsdp_pre_all_gather"):
                observe.watch_hooks(type(tensor))
            return tensor

        self.model = models.build(case, self.rank, make)
        self.modules = {}
        for group in case["groups"][1:]:
            self.modules[group["name"]] = self._shard(group, getattr(self.model, group["name"]))
        root = case["groups"][0]
        self.modules[root["name"]] = self._shard(root, self.model)
        self._watch()
        lr = 2.0 ** case["optimizer"]["lr_log2"]
        momentum = 0.5 if case["optimizer"]["kind"] == "sgd_momentum" else 0.0
        parameters = [p for p in self.model.parameters()]
        self.optimizer = (
            torch.optim.SGD(parameters, lr=lr, momentum=momentum, foreach=False)
            if parameters
            else None
        )

    def _shard(self, group, module):
        dims = {
            id(p): Shard(spec["shard_dim"])
            for spec in group["params"]
            for p in [getattr(module, spec["name"])]
            if spec["shard_dim"] != 0
        }
        return fully_shard(
            module,
            mesh=self.mesh,
            reshard_after_forward=group["reshard_after_forward"],
            shard_placement_fn=(lambda p: dims.get(id(p))) if dims else None,
            mp_policy=_policy(group["mixed_precision"]),
            offload_policy=(
                CPUOffloadPolicy(pin_memory=False) if group["offload_to_cpu"] else OffloadPolicy()
            ),
        )

    def _watch(self):
        self.watched = {}
        for group in self.case["groups"]:
            module = self.modules[group["name"]]
            state = FSDPModule._get_fsdp_state(module)
            if state._fsdp_param_group is None:
                continue
            specs = {spec["name"]: spec for spec in group["params"]}
            for fsdp in state._fsdp_param_group.fsdp_params:
                spec = specs.get(fsdp._module_info.param_name)
                if spec is None or fsdp._module_info.module is not module:
                    continue
                watched = observe.Watched(fsdp, group, spec, PACKS[spec["pack"]])
                observe.tag_padding(watched)
                self.log.watched[id(fsdp)] = watched
                self.watched[f"{group['name']}.{spec['name']}"] = watched
                local = fsdp._sharded_local_tensor
                self.log.emit(
                    "sharded",
                    {
                        "group": group["name"],
                        "param": spec["name"],
                        "local_shape": list(fsdp.sharded_size),
                        "padded_shape": list(fsdp.padded_sharded_param_size),
                        "local_type": type(local).__name__,
                        "expected_type": watched.pack.sharded_type(spec["hook"]),
                        "dtype": observe.dtype_name(local.dtype),
                        "storage_bytes": watched.pack.local_data(local).untyped_storage().nbytes(),
                        "requires_grad": fsdp.sharded_param.requires_grad,
                    },
                )

    # -- operations -------------------------------------------------------------------------------
    def run(self):
        self.build()
        for step in range(self.case["steps"]):
            self.micro = 0
            for number, operation in enumerate(self.case["operations"]):
                if isinstance(operation, str):
                    operation = {"op": operation}
                name = operation["op"]
                self.log.place(step, number, name)
                getattr(self, "op_" + name)(step, number, operation)
                if name in ("forward", "backward", "step"):
                    for watched in self.watched.values():
                        observe.write_storage(self.log, watched, name)
                _shardfuzz.record_memory(self.rank)
        self.log.place(self.case["steps"] - 1, -1, "end")
        self.log.emit("finished", {})

    def _local(self, watched):
        local = watched.fsdp.sharded_param._local_tensor
        return watched.pack.local_data(local)

    def op_forward(self, step, number, operation):
        micro = self.micro
        self.micro += 1
        shards = {key: self._local(w).detach().clone() for key, w in self.watched.items()}
        self.forwards.append((step, micro, shards))
        h = torch.ones(4, device=self.device, requires_grad=True)
        inputs = models.inputs_of(self.case, self.rank, step, micro, self.device)
        self.inputs.append(inputs)
        root = self.case["groups"][0]["name"]
        h, outputs = self.model(h, inputs[root], models.Opaque(inputs))
        loss = models.loss_of(self.case, self.rank, step, micro, h, outputs)
        self.outputs.append((step, micro, [_shardfuzz.digest(o) for o in outputs]))
        self.losses.append(loss)

    def op_backward(self, step, number, operation):
        losses, self.losses = self.losses, []
        for i, loss in enumerate(losses):
            if len(losses) > 1:
                self.model.set_is_last_backward(i == len(losses) - 1)
            loss.backward()
        gradients = {}
        for key, watched in self.watched.items():
            grad = watched.fsdp.sharded_param.grad
            local = None if grad is None else grad._local_tensor
            gradients[key] = None if local is None else local.detach().clone()
            self.log.emit(
                "gradient",
                {
                    "group": watched.group,
                    "param": watched.name,
                    "present": local is not None,
                    "type": "" if local is None else type(local).__name__,
                    "dtype": "" if local is None else observe.dtype_name(local.dtype),
                    "shape": [] if local is None else list(local.shape),
                    "digest": "" if local is None else _shardfuzz.digest(local),
                },
            )
        self.gradients.append((step, number, gradients))

    def op_step(self, step, number, operation):
        if self.optimizer is None:
            return
        gradients = {
            key: (
                None
                if w.fsdp.sharded_param.grad is None
                else w.fsdp.sharded_param.grad._local_tensor.detach().clone()
            )
            for key, w in self.watched.items()
        }
        before = {key: self._local(w).detach().clone() for key, w in self.watched.items()}
        momenta = {key: self._momentum(w) for key, w in self.watched.items()}
        self.optimizer.step()
        owned = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        after = {}
        for key, watched in self.watched.items():
            module = watched.fsdp._module_info.module
            param = getattr(module, watched.name)
            sharded = watched.fsdp.sharded_param
            local = sharded._local_tensor
            after[key] = watched.pack.local_data(local).detach().clone()
            self.log.emit(
                "stepped",
                {
                    "group": watched.group,
                    "param": watched.name,
                    "optimizer_owns_it": id(sharded) in owned
                    and (param is sharded or not watched.fsdp.sharded_state.name == "SHARDED"),
                    "type": type(local).__name__,
                    "dtype": observe.dtype_name(local.dtype),
                    "requires_grad": sharded.requires_grad,
                    "digest": _shardfuzz.digest(after[key]),
                },
            )
        self.updates.append((step, number, before, momenta, gradients, after))

    def _momentum(self, watched):
        buffer = self.optimizer.state.get(watched.fsdp.sharded_param, {}).get("momentum_buffer")
        return None if buffer is None else buffer._local_tensor.detach().clone()

    def op_zero_grad(self, step, number, operation):
        if self.optimizer is not None:
            self.optimizer.zero_grad()

    def op_unshard(self, step, number, operation):
        handle = self.modules[operation["group"]].unshard(async_op=operation["flag"])
        if handle is not None:
            self.handles[operation["group"]] = handle

    def op_wait_unshard(self, step, number, operation):
        self.handles.pop(operation["group"]).wait()

    def op_reshard(self, step, number, operation):
        self.modules[operation["group"]].reshard()

    def op_prefetch_forward(self, step, number, operation):
        self.model.set_modules_to_forward_prefetch([self.modules[operation["group"]]])

    def op_prefetch_backward(self, step, number, operation):
        self.model.set_modules_to_backward_prefetch([self.modules[operation["group"]]])

    def op_unshard_async_op(self, step, number, operation):
        self.modules[operation["group"]]._set_unshard_async_op(operation["flag"])

    def op_gradient_sync(self, step, number, operation):
        self.model.set_requires_gradient_sync(operation["flag"])

    def op_reshard_after_backward(self, step, number, operation):
        self.model.set_reshard_after_backward(operation["flag"])

    def op_all_reduce(self, step, number, operation):
        self.model.set_requires_all_reduce(operation["flag"])

    def _param(self, operation):
        key = f"{operation['group']}.{operation['param']}"
        if key not in self.watched:  # a second name: FSDP2 manages the parameter under its first
            key = self._first_name(operation)
        watched = self.watched[key]
        return watched, watched.fsdp.sharded_param

    def _first_name(self, operation):
        for group in self.case["groups"]:
            for param in group["params"]:
                if (group["name"], param["name"]) == (operation["group"], operation["param"]):
                    return param["tied_to"]
        raise ValueError(f"no parameter {operation['group']}.{operation['param']}")

    def op_freeze(self, step, number, operation):
        self._param(operation)[1].requires_grad_(False)

    def op_unfreeze(self, step, number, operation):
        self._param(operation)[1].requires_grad_(True)

    def op_save(self, step, number, operation):
        self.saved = {key: value.detach().clone() for key, value in self.model.state_dict().items()}

    def op_load(self, step, number, operation):
        if self.saved is None:
            return
        self.model.load_state_dict(self.saved)
        for key, watched in self.watched.items():
            name = watched.name if watched.group == self.case["groups"][0]["name"] else key
            local = watched.fsdp.sharded_param._local_tensor
            kept = self.saved[name]._local_tensor
            self.log.emit(
                "loaded",
                {
                    "group": watched.group,
                    "param": watched.name,
                    "same_bytes": _shardfuzz.digest(watched.pack.local_data(local))
                    == _shardfuzz.digest(watched.pack.local_data(kept)),
                    "same_type": type(local) is type(kept),
                },
            )

    def op_full_tensor(self, step, number, operation):
        watched, param = self._param(operation)
        local = self._local(watched).detach().clone()
        full = param.full_tensor().detach()
        # DTensor's gather may or may not keep the subclass; the bytes must be the shards' either
        # way.
        plain = full if type(full) is torch.Tensor else watched.pack.local_data(full)
        self.fulls.append((step, f"{watched.group}.{watched.name}", local, plain.clone()))


def _place_of(error):
    """The innermost function of torch, torchao or a pack: where the error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if "shardfuzz_real" not in frame.filename or "packs" in frame.filename:
            return f"{frame.filename.rsplit('/', 1)[-1]}:{frame.name}"
    return f"{frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].name}" if frames else ""


def _stable(message):
    """The message without what differs between processes: addresses, and the order of sets."""
    message = re.sub(r"0x[0-9a-fA-F]{6,}", "0x...", message)
    return re.sub(
        r"\{([^{}:]*)\}", lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}", message
    )


def _is_unwinding(error):
    """True where our own "no rank can go on" is the exception, or what it was raised over."""
    seen = set()
    while error is not None and id(error) not in seen:
        if str(error).startswith("shardfuzz: no rank can go on"):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def run_rank(case, rank, device):
    """Runs the case on the calling thread; returns the program, which holds its events."""
    program = RankProgram(case, rank, device)
    log = program.log
    try:
        program.run()
        if device == "cuda":
            torch.cuda.synchronize()  # what went wrong on the device is raised here at the latest
    except Exception as error:  # noqa: BLE001 - whatever the code under test raises is the result
        message = _stable(str(error))
        current = log.current
        log.emit(
            "raised",
            {
                "type": type(error).__name__,
                "message": message[:4000],
                "where": _place_of(error),
                "group": current.group if current else "",
                "param": current.name if current else "",
                "by_harness": _is_unwinding(error),
            },
        )
        _shardfuzz.note_raised(rank)
        error.__traceback__ = None
        program.failed = True
    else:
        program.failed = False
    finally:
        observe.stop()
    return program


_encode = json.JSONEncoder(separators=(",", ":")).encode


def events_json(programs, extra):
    """The Python events of a run as the inside of a JSON array."""
    models.forget_large_data()
    rows = [
        {
            "i": index,
            "rank": rank,
            "step": step,
            "op": operation,
            "phase": phase,
            "kind": kind,
            "data": data,
        }
        for events in [*(p.log.events for p in programs), extra]
        for index, rank, step, operation, phase, kind, data in events
    ]
    return _encode(rows)[1:-1]
