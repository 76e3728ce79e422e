"""The kernels of this folder on torch's CUDA tensors, through ctypes (c_interface.cc).

Every function checks what comes back from CUDA and raises KernelError with the kernel's name.
Quantizers give (bytes, scales) laid out as [problem][slot][step] and [problem][slot]; the table in
quantize.h says which operator of torchao has which slots and steps.
"""

import ctypes
import os

import torch

ELEMENTS = {torch.float32: 0, torch.bfloat16: 1}


class KernelError(RuntimeError):
    pass


def _int64s(*values):
    return (ctypes.c_longlong * len(values))(*values)


def _stream():
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


def _pointer(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class Kernels:
    """library: the path of libshardfuzz_kernels_shared.so."""

    def __init__(self, library):
        if not os.path.exists(library):
            raise KernelError(f"{library}: no such file; build shardfuzz_kernels_shared")
        self._library = ctypes.CDLL(os.path.abspath(library))
        self._library.shardfuzz_error.restype = ctypes.c_char_p

    def _call(self, name, *arguments):
        code = getattr(self._library, name)(*arguments, _stream())
        if code != 0:
            raise KernelError(f"{name}: {self._library.shardfuzz_error(code).decode()}")

    def quantize(self, source, problems, slots, steps, strides, out=None):
        """strides: of the source, in elements, for problem, slot and step."""
        data, scales = out or quantized_like(source, problems, slots, steps)
        self._call(
            "shardfuzz_quantize",
            _pointer(source),
            ELEMENTS[source.dtype],
            _pointer(data),
            _pointer(scales),
            _int64s(slots, steps, problems),
            _int64s(*strides),
            _int64s(slots * steps, steps),
            1,
        )
        return data, scales

    def rowwise_2d(self, x, out=None):
        rows, depth = x.shape
        return self.quantize(x, 1, rows, depth, (0, x.stride(0), x.stride(1)), out)

    def colwise_3d(self, x, out=None):
        experts, depth, columns = x.shape
        strides = (x.stride(0), x.stride(2), x.stride(1))
        return self.quantize(x, experts, columns, depth, strides, out)

    def rowwise_transpose_rhs(self, x, out=None):
        experts, depth, columns = x.shape
        return self.quantize(x, experts, depth, columns, x.stride(), out)

    def per_group_colwise(self, x, ends, out=None):
        tokens, columns = x.shape
        data, scales = out or quantized_like(x, len(ends), columns, tokens, grouped=True)
        self._call(
            "shardfuzz_quantize_groups",
            _pointer(x),
            ELEMENTS[x.dtype],
            _pointer(data),
            _pointer(scales),
            _pointer(ends),
            _int64s(columns, tokens, len(ends)),
            _int64s(x.stride(1), x.stride(0)),
            _int64s(tokens),
            1,
        )
        return data, scales

    def multiply_jagged_rows(self, left, left_scales, right, right_scales, ends, out):
        """left (tokens, depth), right (experts, columns, depth), out (tokens, columns) bf16; ends
        a list."""
        experts, columns, depth = right.shape
        self._call(
            "shardfuzz_multiply_jagged_rows",
            _pointer(left),
            _pointer(left_scales),
            _pointer(right),
            _pointer(right_scales),
            _pointer(out),
            (ctypes.c_int * experts)(*ends),
            _int64s(columns, depth, experts),
            _int64s(depth, depth, columns * depth, columns),
        )
        return out

    def multiply_jagged_depth(self, left, left_scales, right, right_scales, ends, out):
        """left (rows, tokens), right (columns, tokens), out (groups, rows, columns) bf16."""
        groups, rows, columns = out.shape
        tokens = left.shape[1]
        self._call(
            "shardfuzz_multiply_jagged_depth",
            _pointer(left),
            _pointer(left_scales),
            _pointer(right),
            _pointer(right_scales),
            _pointer(out),
            (ctypes.c_int * groups)(*ends),
            _int64s(rows, columns, groups),
            _int64s(tokens, tokens, columns, rows * columns),
        )
        return out

    def digest(self, tensor):
        value = torch.zeros(1, dtype=torch.int64, device=tensor.device)
        count = ctypes.c_ulonglong(tensor.numel() * tensor.element_size())
        self._call("shardfuzz_digest", _pointer(tensor), count, _pointer(value))
        return value

    def copy(self, segments):
        """segments: rows of (source, target, bytes, zeros), addresses as integers."""
        flat = [number for segment in segments for number in segment]
        numbers = (ctypes.c_ulonglong * len(flat))(*flat)
        self._call("shardfuzz_copy_segments", numbers, ctypes.c_longlong(len(segments)))


def quantized_like(source, problems, slots, steps, grouped=False):
    bytes_shape = (slots, steps) if grouped else (problems, slots, steps)
    data = torch.empty(bytes_shape, dtype=torch.uint8, device=source.device)
    return data, torch.empty((problems, slots), dtype=torch.float32, device=source.device)
