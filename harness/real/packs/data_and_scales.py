"""An extension of our own that gathers two tensors: data in bfloat16 and one fp32 scale for each
row.

The scale is a power of two, so small integers survive exactly and every rank count gives the same
values. The post hook puts the values, in the compute dtype, into a tensor of its own.

The hook takes one argument on purpose. PyTorch checks what a hook with five arguments sends on
ranks whose shard is short, and wants every tensor in the padded shard's shape, which a scale for
each row never has. The tensor therefore remembers the shape of the whole, and pads by itself.
Sharding on another dim than the first cuts rows, whose scale is then no shard's own: it is refused.
"""

import _shardfuzz
import torch
from shardfuzz_real.pack import Pack
from torch.utils._pytree import tree_map_only

_aten = torch.ops.aten
# Results of these are tensors of the same kind; of all others, plain ones.
_KEEP = {
    _aten.detach.default,
    _aten.clone.default,
    _aten.empty_like.default,
    _aten.zeros_like.default,
    _aten.new_zeros.default,
    _aten.slice.Tensor,
    _aten.split.Tensor,
    _aten.view.default,
    _aten.as_strided.default,
    _aten._to_copy.default,
}


class ScaledRows(torch.Tensor):
    """Holds values in the original dtype; `whole` is the shape of the whole parameter."""

    @staticmethod
    def __new__(cls, data, whole):
        self = torch.Tensor._make_wrapper_subclass(
            cls,
            data.size(),
            strides=data.stride(),
            storage_offset=data.storage_offset(),
            dtype=data.dtype,
            layout=data.layout,
            device=data.device,
        )
        self._data, self._whole = data, whole
        return self

    def __repr__(self):
        return f"ScaledRows({self._data}, whole={self._whole})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        whole = None

        def unwrap(tensor):
            nonlocal whole
            whole = tensor._whole
            return tensor._data

        plain_args, plain_kwargs = tree_map_only(cls, unwrap, (args, kwargs or {}))
        result = func(*plain_args, **plain_kwargs)
        if func._schema.is_mutable and isinstance(args[0], cls):
            return args[0]
        if func not in _KEEP:
            return result
        return tree_map_only(torch.Tensor, lambda tensor: cls(tensor, whole), result)

    def fsdp_pre_all_gather(self, mesh):
        if self._data.shape[1:] != self._whole[1:]:
            raise NotImplementedError(
                "ScaledRows can be sharded on dim 0 only: a scale is of a row"
            )
        rows = -(-self._whole[0] // mesh.size())
        data, scales = quantize(self._data)
        return (_pad(data, rows), _pad(scales, rows)), None

    def fsdp_post_all_gather(self, all_gather_outputs, metadata, param_dtype, *, out=None):
        data, scales = all_gather_outputs
        with torch.no_grad():
            rows = self._whole[0]
            values = dequantize(data[:rows], scales[:rows], param_dtype)
            if out is None:
                return values, (values,)
            with torch.autograd._unsafe_preserve_version_counter(out):
                out.copy_(values)


def quantize(data):
    """(bfloat16 within (-1, 1), fp32 scale of each row): data is their product."""
    wide = data.detach().to(torch.float32)
    largest = wide.abs().reshape(wide.shape[0], wide[:1].numel() or 1).amax(1)
    scales = torch.ldexp(torch.ones_like(largest), torch.frexp(largest).exponent)
    return (wide / _beside(scales, wide)).to(torch.bfloat16), scales


def dequantize(data, scales, dtype):
    return (data.to(torch.float32) * _beside(scales, data)).to(dtype)


def _beside(scales, data):
    return scales.view(-1, *[1] * (data.dim() - 1))


def _pad(tensor, rows):
    if tensor.shape[0] == rows:
        return tensor
    padded = tensor.new_empty((rows, *tensor.shape[1:]))
    padded[: tensor.shape[0]] = tensor
    _shardfuzz.write_tags(padded[tensor.shape[0] :])
    return padded


class DataAndScales(Pack):
    name = "data_and_scales"
    about = "an extension that gathers data and a scale for each row"
    hooks = {"padded": {"arguments": 1}}
    calls = ("mul", "linear")
    is_extension = True
    gathers_values = False
    has_scales = True
    gathered_item_bytes = 2
    gathered_scale_bytes_a_row = 4
    holds_values = True

    def build(self, data, hook):
        return ScaledRows(data, data.shape)

    def local_data(self, local):
        return getattr(local, "_data", local)

    def sharded_type(self, hook):
        return "ScaledRows"

    def slots_data(self, unsharded, outputs):
        return outputs[0].view(-1, *unsharded.shape[1:])

    def declared(self, hook, padded_shape, orig_dtype, param_dtype):
        return [(tuple(padded_shape), torch.bfloat16), (tuple(padded_shape[:1]), torch.float32)]

    def plain(self, data, dtype, hook):
        return dequantize(*quantize(data), dtype)


PACK = DataAndScales()
