"""A pack that goes wrong on purpose: in backward it reads the unsharded parameter that reshard freed.

It keeps an alias that autograd does not know of and reads it in a hook of its output, which runs
before FSDP2 gathers again. The call path chooses the operator: for `mul` one that dies of a segfault
on a CPU, for `linear` one that checks its pointers and raises.
"""

import torch
from shardfuzz_real.pack import Pack


class ReadsFreed(Pack):
    name = "reads_freed"
    about = "reads a freed parameter (for tests)"
    calls = ("mul", "linear")

    def call(self, path, x, offs, w):
        alias = w.detach()
        y = x * w if path == "mul" else torch.nn.functional.linear(x, w)
        if path == "mul":
            y.register_hook(lambda grad: grad * alias)
        else:
            y.register_hook(lambda grad: torch.mm(torch.mm(grad, alias), alias.t()))
        return y


PACK = ReadsFreed()
