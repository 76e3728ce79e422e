"""A pack that goes wrong on purpose: it never comes back from a module's forward."""

import torch
from shardfuzz_real.pack import Pack


class NeverEnds(Pack):
    name = "never_ends"
    about = "hangs (for tests)"

    def call(self, path, x, offs, w):
        y = torch.atan(x)
        while True:
            y = torch.sinh(y)


PACK = NeverEnds()
