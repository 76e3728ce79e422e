"""The module that a case describes: a root and units that it calls in order, each with its
parameters."""

import _shardfuzz
import torch
from torch import nn

from .pack import DTYPES, PACKS


def call(param, x, offs, w, plain=False):
    """The output of one parameter: as its pack calls it (or the plain one), or as anybody would."""
    path = param["call"]
    pack = PACKS[param["pack"]]
    own = (plain and pack.plain_call) or pack.call
    if own is not None:
        return own(path, x, offs, w)
    if path == "mul":
        return x * w
    if path == "linear":
        return nn.functional.linear(x, w)
    if path == "grouped_mm":
        return torch._grouped_mm(x, w.transpose(-2, -1), offs=offs)
    if path == "grouped_mm_no_offs":
        return torch._grouped_mm(x, w.transpose(-2, -1))
    if path == "bmm":
        return torch.bmm(x, w.transpose(-2, -1))
    raise ValueError(f"unknown call path {path}")


class Unit(nn.Module):
    """One `fully_shard` group. Returns (h, outputs by parameter); h carries the graph through."""

    def __init__(self, spec, parameters):
        super().__init__()
        self.spec = spec
        for name, parameter in parameters.items():
            self.register_parameter(name, parameter)

    def own(self, h, inputs):
        outputs = []
        for param in self.spec["params"]:
            x, offs = inputs[param["name"]]
            outputs.append(call(param, x, offs, getattr(self, param["name"])))
        return h.clone(), outputs

    def forward(self, h, inputs):
        return self.own(h, inputs)


class Opaque:
    """Carries the inputs of the units past the root's own cast: each unit casts what it gets."""

    def __init__(self, inputs):
        self.inputs = inputs


class Root(Unit):
    def __init__(self, spec, parameters, units, rank):
        super().__init__(spec, parameters)
        for unit_spec, unit in units:
            self.add_module(unit_spec["name"], unit)
        self.order = [s["name"] for s, _ in units if rank not in s.get("unused_on_ranks", ())]

    def forward(self, h, inputs, others):
        h, outputs = self.own(h, inputs)
        for name in self.order:
            h, more = getattr(self, name)(h, others.inputs[name])
            outputs = outputs + more
        # Tensors of the root's own, as a model's last layer makes them: the root's backward begins
        # before that of its last unit.
        return h.clone(), [output.clone() for output in outputs]


_large = {}  # full data of large parameters, shared by the ranks of one run
_LARGE_NUMEL = 1 << 20


def original_data(case, group, param):
    """The full parameter's values: small integers (or normal floats) named by seed and place."""
    place = f"{group['name']}.{param['name']}"
    if place in _large:
        return _large[place]
    data = torch.empty(param["shape"], dtype=torch.float32)
    integer = case["batch"]["values"] == "integer"
    _shardfuzz.fill(data, case["seed"], place, 8, integer)
    data = data.to(DTYPES[param["dtype"]])
    if data.numel() >= _LARGE_NUMEL:
        _large[place] = data
    return data


def forget_large_data():
    """At the end of a run."""
    _large.clear()


def build(case, rank, make):
    """The model of one rank (or the reference). `make(group, param, data)` gives the tensor."""
    made = {}
    units = []
    root = None
    for group in case["groups"]:
        parameters = {}
        for param in group["params"]:
            if param["tied_to"]:
                parameters[param["name"]] = made[param["tied_to"]]
                continue
            tensor = make(group, param, original_data(case, group, param))
            parameter = nn.Parameter(tensor, requires_grad=param["requires_grad"])
            made[f"{group['name']}.{param['name']}"] = parameter
            parameters[param["name"]] = parameter
        if root is None:
            root = (group, parameters)
        else:
            units.append((group, Unit(group, parameters)))
    return Root(root[0], root[1], units, rank)


def _rows(case, rank):
    batch = case["batch"]
    factor = batch["tokens_by_rank"][rank] if batch["tokens_by_rank"] else 1
    return batch["tokens_per_expert"] * batch["top_k"] * factor


def _input(case, rank, step, micro, group, param, device):
    """(x, offs) of one parameter: x in the group's param_dtype after fully_shard's own cast."""
    shape, path = param["shape"], param["call"]
    batch = case["batch"]
    rows = _rows(case, rank)
    offs = None
    if path == "mul":
        x_shape = shape
    elif path == "linear":
        x_shape = [rows, shape[1]]
    elif path == "grouped_mm":
        counts = [0 if e in batch["empty_experts"] else rows for e in range(shape[0])]
        offs = torch.tensor(counts, dtype=torch.int32).cumsum(0, dtype=torch.int32).to(device)
        x_shape = [sum(counts), shape[2]]
    else:
        x_shape = [shape[0], rows, shape[2]]
    mixed = group["mixed_precision"]
    dtype = mixed["param_dtype"] if mixed["param_dtype"] else param["dtype"]
    data_rank = 0 if batch["same_on_all_ranks"] else rank
    x = torch.empty(x_shape, dtype=torch.float32)
    place = f"x/{data_rank}/{step}/{micro}/{group['name']}.{param['name']}"
    _shardfuzz.fill(x, case["seed"], place, 1, batch["values"] == "integer")
    # Inputs arrive in fp32 where fully_shard casts them, else in the dtype that the call needs.
    cast_by_torch = mixed["param_dtype"] and mixed["cast_forward_inputs"]
    x = x.to(device, torch.float32 if cast_by_torch else DTYPES[dtype])
    return x.requires_grad_(True), offs


def inputs_of(case, rank, step, micro, device):
    return {
        group["name"]: {
            param["name"]: _input(case, rank, step, micro, group, param, device)
            for param in group["params"]
        }
        for group in case["groups"]
    }


def loss_of(case, rank, step, micro, h, outputs):
    """A loss with dense gradients: each output times small integers, summed."""
    batch = case["batch"]
    data_rank = 0 if batch["same_on_all_ranks"] else rank
    total = h.float().sum()
    for i, output in enumerate(outputs):
        weight = torch.empty(output.shape, dtype=torch.float32)
        place = f"g/{data_rank}/{step}/{micro}/{i}"
        _shardfuzz.fill(weight, case["seed"], place, 1, batch["values"] == "integer")
        total = total + (output.float() * weight.to(output.device)).sum()
    return total


__all__ = ["PACKS", "Root", "build", "inputs_of", "loss_of", "original_data"]
