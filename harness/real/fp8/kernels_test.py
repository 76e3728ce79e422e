"""The CPU kernels of kernels.h against torchao's own reference functions, called as operators.

Needs SHARDFUZZ_FP8_LIBRARY: the path of shardfuzz_fp8_shared. Quantizers are compared bit for bit,
the grouped matmul with float64 on the same bytes.
"""

import ctypes
import os
import random

import pytest
import torch
import torch.utils._triton as triton_switch

LIBRARY = os.environ["SHARDFUZZ_FP8_LIBRARY"]

# torchao defines its Triton operators only where has_triton() says yes, which asks for a GPU.
_true_has_triton = triton_switch.has_triton
triton_switch.has_triton = lambda: True
try:
    from torchao.float8.config import ScalingGranularity
    from torchao.float8.float8_utils import tensor_to_scale, to_fp8_saturated
    from torchao.prototype.moe_training import kernels as ao_kernels
    from torchao.prototype.moe_training import utils as ao_utils
    from torchao.prototype.moe_training.config import Float8TrainingOpConfig
    from torchao.prototype.moe_training.tensor import Float8TrainingWeightWrapperTensor
finally:
    triton_switch.has_triton = _true_has_triton

torch.ops.load_library(LIBRARY)

E4M3 = torch.float8_e4m3fn
DTYPES = [torch.float32, torch.bfloat16]
EMPTY_SCALE = 2.0**48


def int32(values):
    return torch.tensor(values, dtype=torch.int32)


def rows(generator, shape, dtype):
    """Random data of many magnitudes, with zero rows and columns, -0.0 and subnormals."""
    data = torch.randn(shape, generator=generator)
    data *= torch.exp2(torch.randint(-40, 40, shape[:-1] + (1,), generator=generator))
    flat = data.view(-1, shape[-1])
    if flat.shape[0] > 2 and shape[-1] > 2:
        flat[1] = 0.0
        flat[:, 2] = -0.0
        flat[0, 0] = 1e-41
    return data.to(dtype)


def same(ours, reference):
    """Equal sizes and bits; the sign and payload of a NaN do not count."""
    assert ours.shape == reference.shape
    if ours.dtype == E4M3:
        a, b = (
            torch.where((codes & 0x7F) == 0x7F, 0x7F, codes)
            for codes in (ours.view(torch.uint8), reference.view(torch.uint8))
        )
        assert torch.equal(a, b)
    else:
        assert ours.dtype == reference.dtype
        assert torch.equal(ours, reference)


def along(tensor, dim):
    """torchao's eager chain: (bytes, scales with a size-1 dim)."""
    scales = tensor_to_scale(
        tensor,
        E4M3,
        scaling_granularity=ScalingGranularity.AXISWISE,
        axiswise_dim=dim,
        round_scales_to_power_of_2=True,
    )
    return to_fp8_saturated(tensor.to(torch.float32) * scales, E4M3), scales


def random_ends(chooser, groups, tokens, unit=16):
    """Group ends in multiples of unit; empty groups and unused tokens happen."""
    return sorted(chooser.randrange(0, tokens // unit + 1) * unit for _ in range(groups))


def spread(tensor, chooser):
    """The same values with other strides."""
    kind = chooser.randrange(3)
    if kind == 1:
        return tensor.transpose(-2, -1).contiguous().transpose(-2, -1)
    if kind == 2:
        wide = torch.full(tensor.shape[:-1] + (2 * tensor.shape[-1] + 1,), 7.0, dtype=tensor.dtype)
        wide[..., 1::2] = tensor
        return wide[..., 1::2]
    return tensor


def test_every_kernel_has_a_schema():
    assert ctypes.CDLL(LIBRARY).shardfuzz_fp8_missing_schemas() == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(12))
def test_rowwise_2d(seed, dtype):
    generator, chooser = torch.Generator().manual_seed(seed), random.Random(seed)
    m, k = chooser.randrange(0, 70), 16 * chooser.randrange(1, 10)
    x = spread(rows(generator, (m, k), dtype), chooser)
    data, scales = ao_kernels.triton_fp8_rowwise_2d_scale_and_cast(x, E4M3, True)
    reference, reference_scales = along(x, -1)
    same(data, reference)
    same(scales, reference_scales)
    assert data.stride() == (k, 1) and scales.shape == (m, 1) and scales.stride() == (1, 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(12))
def test_colwise_3d(seed, dtype):
    generator, chooser = torch.Generator().manual_seed(seed), random.Random(seed)
    e, k, n = chooser.randrange(1, 5), 16 * chooser.randrange(1, 6), 16 * chooser.randrange(1, 6)
    x = spread(rows(generator, (e, k, n), dtype), chooser)
    data, scales = ao_kernels.triton_fp8_colwise_3d_scale_and_cast(x, E4M3, True)
    reference, reference_scales = along(x, -2)
    same(data, reference)
    same(scales, reference_scales)
    assert data.stride() == (k * n, 1, k) and scales.stride() == (n, n, 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(12))
def test_rowwise_transpose_rhs(seed, dtype):
    generator, chooser = torch.Generator().manual_seed(seed), random.Random(seed)
    e, k, n = chooser.randrange(1, 5), 16 * chooser.randrange(1, 6), 16 * chooser.randrange(1, 6)
    x = rows(generator, (e, n, k), dtype).transpose(-2, -1)
    data, scales = ao_kernels.triton_fp8_rowwise_3d_transpose_rhs(x, E4M3, True)
    reference, reference_scales = ao_utils.torch_to_3d_rowwise_float8_transpose_rhs(x, E4M3, True)
    same(data, reference)
    same(scales, reference_scales.squeeze(1))
    assert data.stride() == (n * k, 1, n) and scales.shape == (e, k)
    other, other_scales = ao_kernels.triton_fp8_rowwise_3d_transpose_rhs(
        spread(x, chooser), E4M3, True
    )
    same(other, data)
    same(other_scales, scales)


def jagged_reference(x, ends):
    """Group by group with torchao's chain; its own function fails on an empty group."""
    n = x.shape[1]
    scales = torch.full((len(ends), n), EMPTY_SCALE)
    data = torch.empty(x.shape, dtype=E4M3)
    start = 0
    for group, end in enumerate(ends):
        if end > start:
            data[start:end], group_scales = along(x[start:end], 0)
            scales[group] = group_scales.squeeze(0)
        start = end
    return data[:start], scales.flatten()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(20))
def test_per_group_colwise(seed, dtype):
    generator, chooser = torch.Generator().manual_seed(seed), random.Random(seed)
    tokens, n1, n2 = (16 * chooser.randrange(1, 8) for _ in range(3))
    ends = random_ends(chooser, chooser.randrange(1, 6), tokens, chooser.choice([1, 16]))
    first = spread(rows(generator, (tokens, n1), dtype), chooser)
    second = spread(rows(generator, (tokens, n2), dtype), chooser)
    offs = int32(ends)
    out = ao_kernels.triton_fp8_per_group_colwise_scales_dual(first, second, offs, E4M3, True)
    single = ao_kernels.triton_fp8_per_group_colwise_scales(second, offs, E4M3, True)
    for x, data, scales in ((first, *out[:2]), (second, *out[2:]), (second, *single)):
        reference, reference_scales = jagged_reference(x, ends)
        same(data[: ends[-1]], reference)
        same(scales, reference_scales)
        assert data.stride() == (1, tokens) and scales.shape == (x.shape[1] * len(ends),)
    if all(b > a for a, b in zip([0] + ends, ends)):
        reference, reference_scales = ao_utils.torch_to_float8_per_group_colwise(
            first, int32(ends), E4M3, True
        )
        same(out[0][: ends[-1]], reference[: ends[-1]])
        same(out[1], reference_scales)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(8))
def test_per_group_rowwise(seed, dtype):
    generator, chooser = torch.Generator().manual_seed(seed), random.Random(seed)
    m, tokens = (16 * chooser.randrange(1, 8) for _ in range(2))
    ends = list(range(16, tokens + 1, 16))
    x = spread(rows(generator, (m, tokens), dtype), chooser)
    data, scales = ao_kernels.triton_fp8_per_group_rowwise_scales(x, int32(ends), E4M3, True)
    reference, reference_scales = ao_utils.torch_to_float8_per_group_rowwise(
        x, int32(ends), E4M3, True
    )
    same(data, reference)
    same(scales, reference_scales)
    assert data.stride() == (tokens, 1)


def test_every_bf16_amax():
    """Each non-negative finite bf16 as the amax of a row, its half and negatives beside it."""
    amax = torch.arange(0x7F80, dtype=torch.int16).view(torch.bfloat16)
    x = torch.stack([amax, amax / 2, -amax, -amax / 2], dim=1)
    data, scales = ao_kernels.triton_fp8_rowwise_2d_scale_and_cast(x, E4M3, True)
    reference, reference_scales = along(x, -1)
    same(data, reference)
    same(scales, reference_scales)


def test_unrounded_scales():
    x = rows(torch.Generator().manual_seed(1), (64, 32), torch.float32)
    data, scales = ao_kernels.triton_fp8_rowwise_2d_scale_and_cast(x, E4M3, False)
    reference_scales = tensor_to_scale(
        x, E4M3, scaling_granularity=ScalingGranularity.AXISWISE, axiswise_dim=-1
    )
    same(scales, reference_scales)
    same(data, to_fp8_saturated(x * reference_scales, E4M3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values(dtype):
    x = torch.ones(5, 16, dtype=dtype)
    x[0, 3] = float("inf")
    x[1, 3] = float("nan")
    x[2] = 0.0
    x[2, 5] = -0.0
    x[3] = 1e-20
    data, scales = ao_kernels.triton_fp8_rowwise_2d_scale_and_cast(x, E4M3, True)
    codes = data.view(torch.uint8)
    assert scales[0] == 0.0 and codes[0, 3] == 0x7F and not codes[0, 4:].any()
    # The NaN is dropped by the maximum and shows in its own place only.
    assert scales[1] == 256.0 and codes[1, 3] == 0x7F and (codes[1, 4:] == 0x78).all()
    assert scales[2] == EMPTY_SCALE and codes[2, 5] == 0x80 and not codes[2, :5].any()
    assert scales[3] == EMPTY_SCALE and not data[3].float().isnan().any()
    reference, reference_scales = along(x[[0, 2, 3]], -1)
    same(data[[0, 2, 3]], reference)
    same(scales[[0, 2, 3]], reference_scales)


@pytest.mark.parametrize("ends", [[0, 0, 0], [0, 16, 16], [16, 16, 32]])
def test_empty_groups_have_finite_scales(ends):
    x = rows(torch.Generator().manual_seed(3), (32, 16), torch.bfloat16)
    _, scales = ao_kernels.triton_fp8_per_group_colwise_scales(x, int32(ends), E4M3, True)
    for group, (start, end) in enumerate(zip([0] + ends, ends)):
        if start == end:
            assert (scales.view(3, 16)[group] == EMPTY_SCALE).all()
    assert scales.isfinite().all()


def test_quantizers_refuse():
    quantize = ao_kernels.triton_fp8_rowwise_2d_scale_and_cast
    with pytest.raises(RuntimeError, match="float32 or bfloat16"):
        quantize(torch.ones(16, 16, dtype=torch.float16), E4M3, True)
    with pytest.raises(RuntimeError, match="must be 2D"):
        quantize(torch.ones(2, 16, 16), E4M3, True)
    with pytest.raises(RuntimeError, match="float8_e4m3fn only|Float8_e4m3fn"):
        quantize(torch.ones(16, 16), torch.float8_e5m2, True)
    with pytest.raises(RuntimeError, match="ends at 48"):
        ao_kernels.triton_fp8_per_group_colwise_scales(torch.ones(32, 16), int32([48]), E4M3, True)


# ---- grouped matmul ------------------------------------------------------------------------------


def random_bytes(generator, shape):
    codes = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    return torch.where((codes & 0x7F) == 0x7F, 0, codes).to(torch.uint8).view(E4M3)


def integers(generator, shape):
    return torch.randint(-4, 5, shape, generator=generator).float().to(E4M3)


def powers(generator, shape):
    return torch.exp2(torch.randint(-6, 7, shape, generator=generator).float())


def transposed(tensor):
    """Column-major: the values of tensor.transpose(-2, -1) where the contraction is contiguous."""
    return tensor.contiguous().transpose(-2, -1)


def slices(ends):
    return zip([0] + ends, ends)


def operands(kind, make, generator, chooser):
    """(a, b, scale_a, scale_b, ends, [(a_i, b_i, scale_a_i, scale_b_i, where in out)])."""
    groups, m, n, k = chooser.randrange(1, 5), *(16 * chooser.randrange(1, 5) for _ in range(3))
    tokens = 16 * chooser.randrange(1, 8)
    if kind == "2d3d":
        ends = random_ends(chooser, groups, tokens, 1)
        a, b = make(generator, (tokens, k)), transposed(make(generator, (groups, n, k)))
        sa, sb = powers(generator, (tokens,)), powers(generator, (groups, n))
        parts = [
            (a[s:e], b[i], sa[s:e], sb[i], slice(s, e)) for i, (s, e) in enumerate(slices(ends))
        ]
    elif kind == "2d2d":
        ends = random_ends(chooser, groups, tokens)
        a, b = make(generator, (m, tokens)), transposed(make(generator, (n, tokens)))
        sa, sb = powers(generator, (groups * m,)), powers(generator, (groups * n,))
        parts = [
            (a[:, s:e], b[s:e], sa[i * m : (i + 1) * m], sb[i * n : (i + 1) * n], i)
            for i, (s, e) in enumerate(slices(ends))
        ]
    elif kind == "3d2d":
        ends = random_ends(chooser, groups, tokens)
        a, b = make(generator, (groups, m, k)), transposed(make(generator, (tokens, k)))
        sa, sb = powers(generator, (groups, m)), powers(generator, (tokens,))
        parts = [
            (a[i], b[:, s:e], sa[i], sb[s:e], (slice(None), slice(s, e)))
            for i, (s, e) in enumerate(slices(ends))
        ]
    else:
        ends = None
        a, b = make(generator, (groups, m, k)), transposed(make(generator, (groups, n, k)))
        sa, sb = powers(generator, (groups, m)), powers(generator, (groups, n))
        parts = [(a[i], b[i], sa[i], sb[i], i) for i in range(groups)]
    return a, b, sa, sb, ends, parts


def multiply(a, b, scale_a, scale_b, ends, **options):
    offs = None if ends is None else int32(ends)
    return torch._scaled_grouped_mm(
        a, b, scale_a, scale_b, offs, out_dtype=torch.bfloat16, use_fast_accum=True, **options
    )


def double(tensor):
    return tensor.float().double()


KINDS = ["2d3d", "2d2d", "3d2d", "3d3d"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(10))
def test_matmul_is_exact_on_integers(kind, seed):
    generator, chooser = torch.Generator().manual_seed(seed), random.Random(seed)
    a, b, sa, sb, ends, parts = operands(kind, integers, generator, chooser)
    out = multiply(a, b, sa, sb, ends)
    for a_i, b_i, sa_i, sb_i, where in parts:
        exact = (double(a_i) @ double(b_i)) * sa_i.double()[:, None] * sb_i.double()[None, :]
        assert torch.equal(out[where], exact.to(torch.bfloat16))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(10))
def test_matmul_error_is_bounded(kind, seed):
    """Float sums lose at most depth ulps of the sum of magnitudes; bf16 half an ulp."""
    generator, chooser = torch.Generator().manual_seed(seed), random.Random(seed)
    a, b, sa, sb, ends, parts = operands(kind, random_bytes, generator, chooser)
    out = multiply(a, b, sa, sb, ends)
    for a_i, b_i, sa_i, sb_i, where in parts:
        scale = sa_i.double()[:, None] * sb_i.double()[None, :]
        exact = (double(a_i) @ double(b_i)) * scale
        total = (double(a_i).abs() @ double(b_i).abs()) * scale
        bound = a_i.shape[1] * 2.0**-24 * total
        bound = bound + (exact.abs() + bound) * 2.0**-8
        assert ((out[where].double() - exact).abs() <= bound).all()


def test_matmul_output_strides():
    generator = torch.Generator().manual_seed(0)
    for kind in KINDS:
        out = multiply(*operands(kind, integers, generator, random.Random(kind))[:5])
        assert out.is_contiguous() and out.dtype == torch.bfloat16


def test_wgrad_of_an_empty_group_is_zero():
    generator = torch.Generator().manual_seed(0)
    a, b = integers(generator, (16, 32)), transposed(integers(generator, (32, 32)))
    ones = torch.ones
    out = multiply(a, b, ones(3 * 16), ones(3 * 32), [16, 16, 32])
    assert not out[1].any() and out[0].any() and out[2].any()


def test_rows_beyond_the_last_group_are_not_written():
    """torch.empty fills with NaN in deterministic mode: it must still stand there."""
    generator = torch.Generator().manual_seed(0)
    a, b = integers(generator, (48, 16)), transposed(integers(generator, (2, 32, 16)))
    torch.use_deterministic_algorithms(True)
    try:
        out = multiply(a, b, torch.ones(48), torch.ones(2, 32), [5, 20])
        bytes_, _ = ao_kernels.triton_fp8_per_group_colwise_scales(
            torch.ones(48, 16), int32([5, 20]), E4M3, True
        )
    finally:
        torch.use_deterministic_algorithms(False)
    assert out[20:].isnan().all() and not out[:20].isnan().any()
    assert bytes_[20:].float().isnan().all() and not bytes_[:20].float().isnan().any()


REFUSED = {
    "not be transposed": dict(a=lambda a: transposed(a)),
    "mat2 to be transposed": dict(b=lambda b: b.contiguous()),
    "contraction dimension": dict(a=lambda a: a[:, :16].contiguous()),
    "strides should be multiple of 16": dict(a=lambda a: torch.cat([a, a[:, :8]], 1)[:, :32]),
    "divisible by 16": dict(b=lambda b: b[:, :, :8], sb=lambda s: s[:, :8].contiguous()),
    "Bias not supported": dict(bias=torch.ones(32)),
    "Scale result not supported": dict(scale_result=torch.ones(1)),
    "provide offsets": dict(ends=lambda e: None),
    "batch sizes have to match": dict(ends=lambda e: e[:1]),
    "same length as mat": dict(sa=lambda s: s[:-1].contiguous()),
    "scale must be contiguous for arg 0": dict(sa=lambda s: torch.ones(96)[::2]),
    "scale must be a 1D tensor, but got 2D, arg 0": dict(sa=lambda s: s[:, None]),
    "same batch dimension": dict(sb=lambda s: s[:1]),
    "same first dimension": dict(sb=lambda s: s[:, :16].contiguous()),
    "contiguous in the last dimension": dict(sb=lambda s: s.t().contiguous().t()),
    "float32 tensors": dict(sa=lambda s: s.double()),
    "Float8_e4m3 matrix": dict(a=lambda a: a.view(torch.uint8)),
    "ends at 64, outside": dict(ends=lambda e: [16, 64]),
    "before its start": dict(ends=lambda e: [32, 16]),
    "aligned to 16 bytes": dict(
        a=lambda a: torch.cat([a.flatten(), a[0]])[8 : 8 + 48 * 32].view(48, 32)
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_matmul_refuses(message):
    generator = torch.Generator().manual_seed(0)
    change = dict(REFUSED[message])
    case = dict(
        a=integers(generator, (48, 32)),
        b=transposed(integers(generator, (2, 32, 32))),
        sa=torch.ones(48),
        sb=torch.ones(2, 32),
        ends=[16, 48],
    )
    multiply(*case.values())
    for name in list(change):
        if callable(change[name]):
            case[name] = change.pop(name)(case[name])
    with pytest.raises((RuntimeError, ValueError), match=message):
        multiply(*case.values(), **change)


def test_matmul_refuses_other_output_and_unaligned_wgrad_groups():
    a, b = torch.zeros(16, 32).to(E4M3), transposed(torch.zeros(16, 32).to(E4M3))
    scales = torch.ones(32)
    with pytest.raises(ValueError, match="Only bf16"):
        torch._scaled_grouped_mm(a, b, scales, scales, int32([16, 32]), out_dtype=torch.float32)
    with pytest.raises(RuntimeError, match="non-negative multiple of 16"):
        multiply(a, b, scales, scales, [8, 32])
    multiply(a, b, scales, scales, [16, 24])  # the device does not look at the last group
    with pytest.raises(RuntimeError, match="Invalid strides/sizes"):
        nothing = torch.empty(0, 16).to(E4M3).as_strided((0, 16), (1, 0))  # as a quantizer's
        multiply(nothing.t(), nothing, scales, scales, [0, 0])


# ---- the real wrapper ----------------------------------------------------------------------------


def dequantized(tensor, dim):
    data, scales = along(tensor, dim)
    return double(data) / scales.double()


def expected_training_step(x, weight, grad, ends):
    """(out, grad of x, grad of weight) in float64 from torchao's eager chain; empty groups: 0."""
    out, grad_x = torch.zeros(grad.shape).double(), torch.zeros(x.shape).double()
    grad_weight = torch.zeros(weight.shape).double()
    for i, (s, e) in enumerate(slices(ends)):
        if e == s:
            continue
        out[s:e] = dequantized(x[s:e], -1) @ dequantized(weight[i], -1).t()
        grad_x[s:e] = dequantized(grad[s:e], -1) @ dequantized(weight[i], 0)
        grad_weight[i] = dequantized(grad[s:e], 0).t() @ dequantized(x[s:e], 0)
    return out, grad_x, grad_weight


def close(ours, exact):
    scale = exact.abs().max().clamp(min=1e-30)
    assert ((ours.double() - exact).abs() <= exact.abs() * 2.0**-8 + scale * 2.0**-18).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ends", [[16, 32], [0, 48], [16, 16, 16, 48], [32], [16, 32, 48]])
def test_forward_and_backward_of_the_wrapper(ends, dtype):
    generator = torch.Generator().manual_seed(len(ends))
    experts, n, k, tokens = len(ends), 32, 48, ends[-1]
    x = torch.randn(tokens, k, generator=generator).to(dtype).requires_grad_()
    weight = torch.randn(experts, n, k, generator=generator).to(dtype)
    grad = torch.randn(tokens, n, generator=generator).to(torch.bfloat16)
    wrapped = torch.nn.Parameter(
        Float8TrainingWeightWrapperTensor(weight.clone(), Float8TrainingOpConfig())
    )
    out = torch._grouped_mm(x, wrapped.transpose(-2, -1), offs=int32(ends))
    out.backward(grad)
    expected, expected_x, expected_weight = expected_training_step(x.detach(), weight, grad, ends)
    assert out.dtype == torch.bfloat16 and x.grad.dtype == dtype and wrapped.grad.dtype == dtype
    close(out.detach(), expected)
    close(x.grad, expected_x)
    close(wrapped.grad, expected_weight)


def test_the_python_kernel_of_torchao_is_not_called(monkeypatch):
    """CPU kernel and AutogradCPU fallthrough stand before torchao's, also with requires_grad."""
    quantize = ao_kernels.triton_fp8_rowwise_2d_scale_and_cast
    monkeypatch.setattr(quantize, "_init_fn", lambda *a: pytest.fail("torchao's kernel was called"))
    data, _ = quantize(torch.ones(16, 16, requires_grad=True), E4M3, True)
    assert not data.requires_grad and data.grad_fn is None
