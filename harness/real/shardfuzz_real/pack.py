"""What a pack is: how to build and call one kind of parameter under test.

A pack is a Python file that defines `PACK`, an instance of a subclass of `Pack`. The facts that a
case needs without Python (harness/case/pack_info.h) are class attributes here; a test compares the
two.
"""

import importlib.util
import os

import torch


class Pack:
    name = ""
    about = ""
    hooks = {"none": {"arguments": 0, "control": True}}  # the first is the default
    calls = ("mul",)
    dtypes = ("fp32", "bf16")
    dim_multiple = 1
    is_extension = False
    needs_param_dtype = False
    gathers_values = True
    has_scales = False
    gathered_item_bytes = 0  # of the first gathered tensor; 0: that of the dtype it sends
    gathered_scale_bytes_a_row = 0  # of the second, for each row of the padded shard
    hook_all_reduce_elements = 0  # of an all-reduce, in the original dtype, that the hook issues
    holds_values = False  # keeps the values in the compute dtype beside what was gathered

    # A method (path, x, offs, w) -> output, where using the parameter takes more than the call
    # path.
    call = None
    # The same for what plain() gives, where that is not used as the parameter is.
    plain_call = None

    def build(self, data, hook):
        """The full parameter made of `data` (original dtype), as a user would before
        fully_shard."""
        return data

    def local_data(self, local):
        """The plain tensor inside a sharded local tensor."""
        return local

    def sharded_type(self, hook):
        return "Tensor"

    def unsharded_type(self, hook):
        return "Tensor"

    def gathered(self, unsharded):
        """The plain tensors inside an unsharded parameter, in the order in which they are
        gathered."""
        return (unsharded,)

    def slots_data(self, unsharded, outputs):
        """The gathered tensor whose rows are those that the ranks sent; `outputs` are FSDP2's."""
        return self.gathered(unsharded)[0]

    def declared(self, hook, padded_shape, orig_dtype, param_dtype):
        """[(shape, dtype)] that a correct pre-all-gather hook sends, on every rank."""
        dtype = param_dtype if self.hooks[hook].get("casts", True) else None
        return [(tuple(padded_shape), dtype or orig_dtype)]

    def plain(self, data, dtype, hook):
        """The parameter of the plain module on one device: `data` is in the original dtype, used in
        `dtype`."""
        return self.build(data.to(dtype), hook)

    def describe(self):
        return {
            "name": self.name,
            "about": self.about,
            "hooks": [
                {
                    "name": name,
                    "arguments": facts["arguments"],
                    "control": facts.get("control", False),
                    "casts": facts.get("casts", True),
                }
                for name, facts in self.hooks.items()
            ],
            "calls": list(self.calls),
            "dtypes": list(self.dtypes),
            "dim_multiple": self.dim_multiple,
            "is_extension": self.is_extension,
            "needs_param_dtype": self.needs_param_dtype,
            "gathers_values": self.gathers_values,
            "has_scales": self.has_scales,
            "gathered_item_bytes": self.gathered_item_bytes,
            "gathered_scale_bytes_a_row": self.gathered_scale_bytes_a_row,
            "hook_all_reduce_elements": self.hook_all_reduce_elements,
            "holds_values": self.holds_values,
        }


PACKS = {}


def load(path, make_loader=None):
    """Loads a pack file and returns the pack. Raises ValueError with what is wrong with it.

    `make_loader(name, path)` gives another loader than Python's own, or None.
    """
    name = "shardfuzz_pack_" + os.path.splitext(os.path.basename(path))[0]
    loader = make_loader(name, path) if make_loader and path.endswith(".py") else None
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None:
        raise ValueError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pack = getattr(module, "PACK", None)
    if not isinstance(pack, Pack):
        raise ValueError(f"{path}: defines no PACK (an instance of shardfuzz_real.pack.Pack)")
    if pack.name in PACKS:
        raise ValueError(f"{path}: a pack named {pack.name!r} is there already: choose another")
    PACKS[pack.name] = pack
    return pack


def load_built_in(folder):
    for file in sorted(os.listdir(folder)):
        if file.endswith(".py") and not file.startswith("_"):
            load(os.path.join(folder, file))


DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8_e4m3": torch.float8_e4m3fn,
    "uint8": torch.uint8,
}
