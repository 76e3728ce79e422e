"""A pack that goes wrong on purpose: a module reads the parameter of the one before, which is
freed.

For cases with two groups of one such parameter. The first keeps an alias of its unsharded
parameter; when the second runs, FSDP2 has resharded the first. The call path chooses the operator:
for `mul` one that dies of a segfault on a CPU, for `linear` one that looks at its pointers and
raises.
"""

import threading

import torch
from shardfuzz_real.pack import Pack

_kept = threading.local()


class ReadsFreed(Pack):
    name = "reads_freed"
    about = "reads a freed parameter (for tests)"
    calls = ("mul", "linear")

    def call(self, path, x, offs, w):
        alias, _kept.alias = getattr(_kept, "alias", None), None
        if alias is None:
            _kept.alias = w.detach()
            alias = w
        if path == "mul":
            return x * w * alias
        return torch.mm(torch.nn.functional.linear(x, w), alias.detach())


PACK = ReadsFreed()
