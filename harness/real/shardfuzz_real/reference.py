"""The plain module on one device: what every rank's outputs, gradients and updates should be (P6).

It runs after the ranks, from what they kept. Each forward starts from the weights that the ranks
really held (so one wrong step does not taint the next), each rank's own batch goes through the
plain module in param_dtype, and the gradients are combined in float64. What must then be equal:

  output     bitwise: the same kernels on the same gathered weights; FSDP must not change a bit
  gradient   bitwise where the data are integers, the group a power of two, the reduction in fp32
  and
             nothing is accumulated in a narrower dtype; else within
             (ranks + 2) * eps(reduce) * S + terms * (eps(original) + eps(param)) * S,
             S the mean over ranks of the summed |gradient|, terms the backwards added up
  parameter  bitwise: the optimizer is elementwise, so each rank's shard follows from its own
  gradient
"""

import _shardfuzz
import torch
from torch import nn

from . import model as models
from .pack import DTYPES, PACKS

_EPS = {
    torch.float32: 2.0**-23,
    torch.bfloat16: 2.0**-8,
    torch.float16: 2.0**-10,
    torch.float64: 0.0,
}


def check(case, programs):
    """Events (as tuples of observe.Rank.emit) of the comparison; empty where a rank raised."""
    if any(program.failed for program in programs):
        return []
    return _Reference(case, programs).run()


class _Reference:
    def __init__(self, case, programs):
        self.case, self.programs = case, programs
        self.events = []
        self.params = {
            f"{group['name']}.{param['name']}": (group, param)
            for group in case["groups"]
            for param in group["params"]
        }
        self.world = len(programs)
        self.device = programs[0].device
        shape, names = case["mesh"]["shape"], case["mesh"]["dim_names"]
        self.shards = dict(zip(names, shape)).get("shard", 1)
        self.integer = case["batch"]["values"] == "integer"
        self.power_of_two = self.world & (self.world - 1) == 0

    def emit(self, rank, step, kind, data):
        self.events.append((_shardfuzz.next_index(), rank, step, -1, "reference", kind, data))

    def run(self):
        self.required = {key: param["requires_grad"] for key, (_, param) in self.params.items()}
        # By parameter, the gradients of every rank: of unsynced backwards, of reduced ones.
        self.pending, self.reduced = {}, {}
        self.synced = self.all_reduce = True
        self.losses = []
        self.terms = 0  # backwards that went into the gradients since zero_grad
        taken = {"forward": 0, "backward": 0, "step": 0, "full_tensor": 0}
        for step in range(self.case["steps"]):
            for operation in self.case["operations"]:
                name = operation if isinstance(operation, str) else operation["op"]
                handler = getattr(self, "on_" + name, None)
                if handler:
                    handler(step, operation, taken.get(name))
                if name in taken:
                    taken[name] += 1
        self.finals()
        return self.events

    # -- operations that matter here ---------------------------------------------------------------
    def on_forward(self, step, operation, number):
        step, micro, _ = self.programs[0].forwards[number]
        full = {
            key: self.full(key, [program.forwards[number][2][key] for program in self.programs])
            for key in self.programs[0].forwards[number][2]
        }
        weights = _Weights(self.case, full, self.required)
        losses = []
        for rank, program in enumerate(self.programs):
            outputs = _plain_forward(self.case, rank, weights, program.inputs[number])
            self.compare_outputs(rank, step, program.outputs[number][2], outputs)
            h = torch.ones(4, device=self.device)
            losses.append(models.loss_of(self.case, rank, step, micro, h, [y for _, y in outputs]))
        self.losses.append((weights, losses))

    def on_backward(self, step, operation, number):
        self.terms += len(self.losses)
        for weights, losses in self.losses:
            for loss in losses:
                for key, grad in weights.gradients(loss).items():
                    self.pending.setdefault(key, []).append(grad)
        self.losses = []
        if not (self.synced and self.all_reduce):
            return
        for key, grads in self.pending.items():
            self.reduced.setdefault(key, []).extend(grads)
        self.pending = {}
        for key in self.programs[0].watched:
            self.compare_gradient(step, key, number)

    def on_step(self, step, operation, number):
        for rank, program in enumerate(self.programs):
            if not program.updates:
                return
            _, _, before, momenta, gradients, after = program.updates[number]
            lr = 2.0 ** self.case["optimizer"]["lr_log2"]
            momentum = 0.5 if self.case["optimizer"]["kind"] == "sgd_momentum" else 0.0
            for key, value in after.items():
                want = before[key]
                grad = gradients[key]
                if grad is not None:
                    if momentum:
                        buffer = momenta[key]
                        grad = grad if buffer is None else buffer * momentum + grad
                    want = want.add(grad, alpha=-lr)
                self.compare(rank, step, key, "parameter", value, want, None)

    def on_full_tensor(self, step, operation, number):
        step, key, _, _ = self.programs[0].fulls[number]
        want = self.full(key, [program.fulls[number][2] for program in self.programs])
        for rank, program in enumerate(self.programs):
            self.compare(rank, step, key, "full tensor", program.fulls[number][3], want, None)

    def on_zero_grad(self, step, operation, number):
        self.reduced = {}
        self.terms = 0

    def on_gradient_sync(self, step, operation, number):
        self.synced = self.all_reduce = operation["flag"]  # FSDP2 sets both

    def on_all_reduce(self, step, operation, number):
        self.all_reduce = operation["flag"]

    def on_freeze(self, step, operation, number):
        self.required[f"{operation['group']}.{operation['param']}"] = False

    def on_unfreeze(self, step, operation, number):
        self.required[f"{operation['group']}.{operation['param']}"] = True

    # -- comparisons -------------------------------------------------------------------------------
    def full(self, key, locals_):
        """The full tensor from the shards of the first replica; offloaded ones come back."""
        dim = self.params[key][1]["shard_dim"]
        return torch.cat(locals_[: self.shards], dim=dim).to(self.device)

    def compare_outputs(self, rank, step, digests, outputs):
        for (key, output), digest in zip(outputs, digests):
            if _shardfuzz.digest(output) != digest:
                self.emit(
                    rank, step, "reference", self.note(key, "output", exact=True, differing=1)
                )

    def note(
        self,
        key,
        what,
        exact=False,
        missing=False,
        differing=0,
        first=-1,
        got=0.0,
        want=0.0,
        headroom=0.0,
    ):
        group, param = key.split(".")
        return {
            "group": group,
            "param": param,
            "what": what,
            "exact": exact,
            "missing": missing,
            "differing": differing,
            "first": first,
            "got": got,
            "want": want,
            "headroom": headroom,
        }

    def compare_gradient(self, step, key, number):
        group, param = self.params[key]
        owners = [program.gradients[number][2].get(key) for program in self.programs]
        expected = self.reduced.get(key)
        present = [owner is not None for owner in owners]
        if expected is None or not all(present):
            if any(present) != (expected is not None) or (any(present) and not all(present)):
                self.emit(
                    present.index(expected is None) if (expected is None) in present else 0,
                    step,
                    "reference",
                    self.note(key, "gradient", missing=True),
                )
            return
        total = self.mean(expected)
        orig = DTYPES[param["dtype"]]
        reduce = self.reduce_dtype(group, param)
        compute = DTYPES[group["mixed_precision"]["param_dtype"] or param["dtype"]]
        wide = orig == compute == torch.float32
        exact = (
            self.integer
            and self.power_of_two
            and reduce == torch.float32
            and (self.terms == 1 or wide)
        )
        bound = None
        if not exact:
            bound = self.mean([grad.abs() for grad in expected]) * (
                (self.world + 2) * _EPS[reduce] + self.terms * (2 * _EPS[orig] + _EPS[compute])
            )
        for replica in range(self.world // self.shards):
            part = owners[replica * self.shards : (replica + 1) * self.shards]
            got = torch.cat(part, dim=param["shard_dim"]).to(self.device)
            want = total.to(torch.float32).to(orig) if exact else total
            self.compare(replica * self.shards, step, key, "gradient", got, want, bound)

    def mean(self, grads):
        total = grads[0].to(torch.float64, copy=True)
        for grad in grads[1:]:
            total.add_(grad)
        return total.div_(self.world)

    def reduce_dtype(self, group, param):
        mixed = group["mixed_precision"]
        name = mixed["reduce_dtype"] or mixed["param_dtype"] or param["dtype"]
        return DTYPES[name]

    def compare(self, rank, step, key, what, got, want, bound):
        got = got.to(want.device)
        if got.shape != want.shape:
            self.emit(rank, step, "reference", self.note(key, what, missing=True))
            return
        if bound is None:
            if torch.equal(got, want):
                self.emit(rank, step, "reference", self.note(key, what, exact=True))
                return
            wrong = ~(got == want)
            headroom = 0.0
        else:
            error = (got.double() - want).abs()
            wrong = ~(error <= bound)
            share = torch.where(bound > 0, error / bound, torch.zeros_like(error))
            headroom = round(_finite(share.max()), 4) if share.numel() else 0.0
        count = int(wrong.sum())
        first = int(wrong.view(-1).to(torch.int8).argmax()) if count else -1
        self.emit(
            rank,
            step,
            "reference",
            self.note(
                key,
                what,
                exact=bound is None,
                differing=count,
                first=first,
                got=_finite(got.reshape(-1)[first]) if count else 0.0,
                want=_finite(want.reshape(-1)[first]) if count else 0.0,
                headroom=headroom,
            ),
        )

    def finals(self):
        """The full parameters at the end, for comparing meshes (P12)."""
        exact = self.integer and self.power_of_two
        for key in self.programs[0].watched:
            locals_ = [p._local(p.watched[key]).detach() for p in self.programs]
            full = self.full(key, locals_)
            flat = full.float().reshape(-1)
            group, param = key.split(".")
            self.emit(
                -1,
                self.case["steps"] - 1,
                "final",
                {
                    "group": group,
                    "param": param,
                    "digest": _shardfuzz.digest(full),
                    "exact": exact and self.reduce_dtype(*self.params[key]) == torch.float32,
                    "sample": [_finite(v) for v in flat[:: max(1, flat.numel() // 16)][:16]],
                },
            )


def _finite(value):
    """JSON has no NaN: a value that is none is sent as a number no data holds."""
    number = float(value)
    return number if abs(number) < 1e300 else 1e300


class _Weights:
    """The parameters of the plain module as one forward had them; all ranks' batches share them."""

    def __init__(self, case, full, required):
        self.leaves, self.tied = {}, {}
        for group in case["groups"]:
            for param in group["params"]:
                key = f"{group['name']}.{param['name']}"
                if param["tied_to"]:
                    self.tied[key] = param["tied_to"]
                    continue
                dtype = group["mixed_precision"]["param_dtype"] or param["dtype"]
                tensor = PACKS[param["pack"]].plain(full[key], DTYPES[dtype], param["hook"])
                self.leaves[key] = nn.Parameter(tensor, requires_grad=required[key])

    def parameter(self, key, dtype):
        """In the dtype of the group that uses it: a tied parameter may have its home in another."""
        leaf = self.leaves[self.tied.get(key, key)]
        return leaf if key not in self.tied else leaf.to(dtype)

    def gradients(self, loss):
        leaves = {key: leaf for key, leaf in self.leaves.items() if leaf.requires_grad}
        if not leaves or not loss.requires_grad:
            return {}
        grads = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        return {key: grad for key, grad in zip(leaves, grads) if grad is not None}


def _plain_forward(case, rank, weights, inputs):
    """[(param key, output)] of the plain module on one rank's batch."""
    outputs = []
    root = case["groups"][0]
    for group in case["groups"]:
        if rank in group["unused_on_ranks"]:
            continue
        mixed = group["mixed_precision"]
        for param in group["params"]:
            key = f"{group['name']}.{param['name']}"
            x, offs = inputs[group["name"]][param["name"]]
            compute = DTYPES[mixed["param_dtype"] or param["dtype"]]
            if mixed["param_dtype"] and mixed["cast_forward_inputs"]:
                x = x.to(DTYPES[mixed["param_dtype"]])
            y = models.call(param, x, offs, weights.parameter(key, compute), plain=True)
            for spec in (mixed, root["mixed_precision"]):
                if spec["output_dtype"]:
                    y = y.to(DTYPES[spec["output_dtype"]])
            outputs.append((key, y))
    return outputs
