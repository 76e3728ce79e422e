"""The kernels against torchao's Triton kernels and ATen's grouped matmul, on a GPU.

    python3 kernels/against_torchao.py --library .../libshardfuzz_kernels_shared.so [--cases 1000]

Quantizers: bytes and scales bit for bit. Matmul: exact on integers, within the bound on random
data. Then what ATen does with groups that have no tokens, each question in a process of its own,
since a device assert ends a process's CUDA context. One line a check; exit 0 where all hold, 1
where one does not, 2 for bad input or no GPU.
"""

import argparse
import random
import subprocess
import sys

import torch

from device_kernels import KernelError, Kernels

E4M3 = torch.float8_e4m3fn
EDGES = [0.0, -0.0, 448.0, -448.0, 464.0, 1e-12, 1e-13, 1e-40, -1e-40, 2.0**-9, 1.5 * 2.0**-9, 3e38]
NOT_FINITE = [float("nan"), float("inf"), float("-inf")]
BOUND = 5e-4  # of the sum of magnitudes: reference error of tensor cores' fast accumulation


def same_bytes(ours, theirs):
    """How many differ; the sign of a NaN does not count."""
    theirs = theirs.view(torch.uint8)
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    a, b = (torch.where((x & 0x7F) == 0x7F, 0x7F, x) for x in (ours, theirs))
    return int((a != b).sum())


def same_scales(ours, theirs):
    theirs = theirs.reshape(ours.shape).contiguous()
    return int((ours.view(torch.int32) != theirs.view(torch.int32)).sum())


class Draw:
    """Random input on the GPU; `chooser` decides shapes, `generator` the data."""

    def __init__(self, seed):
        self.chooser = random.Random(seed)
        self.generator = torch.Generator(device="cuda").manual_seed(seed)

    def size(self, most):
        return 16 * self.chooser.randint(1, most)

    def data(self, *shape):
        x = torch.randn(shape, device="cuda", generator=self.generator)
        powers = torch.randint(-30, 30, (shape[-1],), device="cuda", generator=self.generator)
        if self.chooser.random() < 0.5:
            x = x * torch.exp2(powers.float())
        edges = EDGES + (NOT_FINITE if self.chooser.random() < 0.3 else [])
        if self.chooser.random() < 0.6:
            at = torch.randint(0, x.numel(), (8,), device="cuda", generator=self.generator)
            chosen = [self.chooser.choice(edges) for _ in range(8)]
            x.view(-1)[at] = torch.tensor(chosen, device="cuda")
        if self.chooser.random() < 0.2:
            x[self.chooser.randrange(shape[0])] = 0.0
        return x.to(self.chooser.choice([torch.float32, torch.bfloat16]))

    def ends(self, tokens):
        ends = sorted(
            16 * self.chooser.randint(0, tokens // 16) for _ in range(self.chooser.randint(1, 8))
        )
        return torch.tensor(ends, dtype=torch.int32, device="cuda")


# --- quantizers ----------------------------------------------------------------------------------


def rowwise_2d(kernels, ao, draw):
    x = draw.data(draw.size(20), draw.size(80))
    ours = kernels.rowwise_2d(x)
    theirs = ao.triton_fp8_rowwise_2d_scale_and_cast(x, E4M3, True)
    return same_bytes(ours[0][0], theirs[0]) + same_scales(ours[1], theirs[1])


def expert_weights(draw):
    """(E, K, N) with K next to each other, as the wrapper hands them over."""
    experts = draw.chooser.randint(1, 5)
    return draw.data(experts, draw.size(12), draw.size(40)).transpose(1, 2)


def colwise_3d(kernels, ao, draw):
    x = expert_weights(draw)
    ours = kernels.colwise_3d(x)
    theirs = ao.triton_fp8_colwise_3d_scale_and_cast(x, E4M3, True)
    return same_bytes(ours[0], theirs[0].transpose(1, 2)) + same_scales(ours[1], theirs[1])


def rowwise_transpose_rhs(kernels, ao, draw):
    x = expert_weights(draw)
    ours = kernels.rowwise_transpose_rhs(x)
    theirs = ao.triton_fp8_rowwise_3d_transpose_rhs(x, E4M3, True)
    return same_bytes(ours[0], theirs[0].transpose(1, 2)) + same_scales(ours[1], theirs[1])


def per_group_colwise_dual(kernels, ao, draw):
    tokens = draw.size(40)
    gradient = draw.data(tokens, draw.size(20))
    activation = draw.data(tokens, draw.size(20)).to(gradient.dtype)
    ends = draw.ends(tokens)
    theirs = ao.triton_fp8_per_group_colwise_scales_dual(gradient, activation, ends, E4M3, True)
    last = int(ends[-1])
    count = 0
    for x, data, scales in ((gradient, *theirs[:2]), (activation, *theirs[2:])):
        ours = kernels.per_group_colwise(x, ends)
        count += same_bytes(ours[0][:, :last], data.t()[:, :last]) + same_scales(ours[1], scales)
    return count


QUANTIZERS = (rowwise_2d, colwise_3d, rowwise_transpose_rhs, per_group_colwise_dual)


def check_quantizers(kernels, ao, report, cases, seed):
    draw = Draw(seed)
    for quantizer in QUANTIZERS:
        first = None
        for index in range(-(-cases // len(QUANTIZERS))):
            count = quantizer(kernels, ao, draw)
            if count and first is None:
                first = f"case {index}: {count} bytes and scales differ"
        report(f"{quantizer.__name__}, {index + 1} cases, bit for bit", first)


def check_scales(kernels, ao, report):
    """Every finite bf16 magnitude as the greatest of its row; fp32 just above 1.75 * 2^n."""
    all_bf16 = torch.arange(0x7F80, dtype=torch.int32, device="cuda").to(torch.int16)
    x = all_bf16.view(torch.bfloat16)[:, None].repeat(1, 16)
    ours, theirs = kernels.rowwise_2d(x), ao.triton_fp8_rowwise_2d_scale_and_cast(x, E4M3, True)
    count = same_scales(ours[1], theirs[1])
    report("scales of all 32,640 bf16 magnitudes", f"{count} differ" if count else None)
    exponents = torch.arange(-100, 101, device="cuda")[:, None]
    bits = torch.tensor(1.75).view(torch.int32).item() + torch.arange(0, 64, device="cuda")
    x = (bits.to(torch.int32) + (exponents << 23)).to(torch.int32).reshape(-1)
    x = x.view(torch.float32)[:, None].repeat(1, 16)
    ours, theirs = kernels.rowwise_2d(x), ao.triton_fp8_rowwise_2d_scale_and_cast(x, E4M3, True)
    differ = ours[1].reshape(-1, 64) != theirs[1].reshape(-1, 64)
    steps = [int(i) for i in differ.any(0).nonzero().flatten()]
    # Not a failure: recipe.h says that a logarithm rounds up there.
    report.note(
        f"fp32 magnitudes 1.75 * 2^n + i ulp where log2 gives twice our scale: i of {steps}"
    )


# --- the grouped matmul --------------------------------------------------------------------------


def grouped_case(tokens, columns, depth, ends, integers=False, seed=0):
    """(left, left scales, right (E, N, K), right scales), random bytes without NaN."""
    generator = torch.Generator(device="cuda").manual_seed(seed)

    def values(*shape):
        if integers:
            x = torch.randint(-3, 4, shape, device="cuda", generator=generator).float()
        else:
            x = torch.randn(shape, device="cuda", generator=generator) * 100
        return x.to(E4M3)

    def scales(*shape):
        if integers:
            return torch.ones(shape, device="cuda")
        return torch.exp2(torch.randint(-12, -2, shape, device="cuda", generator=generator).float())

    experts = len(ends)
    left, right = values(tokens, depth), values(experts, columns, depth)
    return left, scales(tokens), right, scales(experts, columns)


def aten_rows(left, left_scales, right, right_scales, ends, fast=True):
    offsets = torch.tensor(ends, dtype=torch.int32, device="cuda")
    return torch._scaled_grouped_mm(
        left,
        right.transpose(1, 2),
        left_scales,
        right_scales,
        offsets,
        out_dtype=torch.bfloat16,
        use_fast_accum=fast,
    )


def magnitude_rows(left, left_scales, right, right_scales, ends):
    out = torch.zeros(left.shape[0], right.shape[1], device="cuda", dtype=torch.float64)
    start = 0
    for expert, end in enumerate(ends):
        a = left[start:end].double().abs() * left_scales[start:end, None]
        out[start:end] = a @ (right[expert].double().abs() * right_scales[expert][:, None]).t()
        start = end
    return out


def check_matmul(kernels, report):
    for depth in (32, 128, 4096):
        tokens, columns, ends = 160, 96, [48, 48, 90, 160]
        case = grouped_case(tokens, columns, depth, ends, integers=True, seed=depth)
        ours = kernels.multiply_jagged_rows(
            *case, ends, torch.zeros(tokens, columns, device="cuda", dtype=torch.bfloat16)
        )
        theirs = aten_rows(*case, ends)
        count = int((ours.view(torch.int16) != theirs.view(torch.int16)).sum())
        report(f"matmul on integers, depth {depth}: exact", f"{count} differ" if count else None)
        case = grouped_case(tokens, columns, depth, ends, seed=depth)
        ours = kernels.multiply_jagged_rows(*case, ends, torch.zeros_like(ours))
        magnitude = magnitude_rows(*case, ends)
        for fast in (True, False):
            theirs = aten_rows(*case, ends, fast)
            error = (ours.double() - theirs.double()).abs() - ours.double().abs() * 2.0**-7
            worst = float((error / magnitude).max())
            text = f"matmul on random data, depth {depth}, {'fast' if fast else 'slow'} sums: error"
            text += f" {max(worst, 0):.1e} of the magnitudes"
            report(text, f"more than {BOUND}" if worst > BOUND else None)


def check_weight_gradient(kernels, report):
    rows, columns, tokens, ends = 64, 48, 128, [32, 32, 96, 128]
    left, left_scales, right, right_scales = grouped_case(rows, columns, tokens, [1], True, 5)
    right = right[0]
    left_scales = torch.ones(len(ends) * rows, device="cuda")
    right_scales = torch.ones(len(ends) * columns, device="cuda")
    out = torch.zeros(len(ends), rows, columns, device="cuda", dtype=torch.bfloat16)
    ours = kernels.multiply_jagged_depth(left, left_scales, right, right_scales, ends, out)
    theirs = torch._scaled_grouped_mm(
        left,
        right.t(),
        left_scales,
        right_scales,
        torch.tensor(ends, dtype=torch.int32, device="cuda"),
        out_dtype=torch.bfloat16,
        use_fast_accum=True,
    )
    count = int((ours != theirs).sum())
    report(
        "weight gradient on integers: exact, zeros for a group without tokens",
        f"{count} differ" if count else None,
    )


# --- what ATen does at the edges: each in its own process ----------------------------------------


def edge_rows(tokens, ends):
    case = grouped_case(tokens, 32, 32, ends, integers=True)
    out = aten_rows(*case, ends)
    torch.cuda.synchronize()
    last = ends[-1]
    expected = torch.zeros(tokens, 32, device="cuda")
    start = 0
    for expert, end in enumerate(ends):
        expected[start:end] = case[0][start:end].float() @ case[2][expert].float().t()
        start = end
    right = torch.equal(out[:last].float(), expected[:last])
    return f"rows up to {last} {'right' if right else 'WRONG'}"


def edge_depth(tokens, ends):
    left = torch.ones(32, tokens, device="cuda").to(E4M3)
    scales = torch.ones(32 * len(ends), device="cuda")
    offsets = torch.tensor(ends, dtype=torch.int32, device="cuda")
    out = torch._scaled_grouped_mm(
        left, left.t(), scales, scales, offsets, out_dtype=torch.bfloat16, use_fast_accum=True
    )
    torch.cuda.synchronize()
    return "counts " + " ".join(str(float(out[i].float().max())) for i in range(len(ends)))


EDGE_QUESTIONS = {
    "rows, first group without tokens": (edge_rows, 64, [0, 32, 64]),
    "rows, middle group without tokens": (edge_rows, 64, [32, 32, 64]),
    "rows, last group without tokens": (edge_rows, 64, [32, 64, 64]),
    "rows, no group has tokens": (edge_rows, 64, [0, 0, 0]),
    "rows, no tokens at all": (edge_rows, 0, [0, 0, 0]),
    "rows, tokens beyond the last end": (edge_rows, 64, [16, 32, 40]),
    "rows, an end beyond the tokens": (edge_rows, 64, [16, 32, 80]),
    "depth, first group without tokens": (edge_depth, 64, [0, 32, 64]),
    "depth, last group without tokens": (edge_depth, 64, [32, 64, 64]),
    "depth, no group has tokens": (edge_depth, 64, [0, 0, 0]),
    "depth, last group of 8": (edge_depth, 64, [16, 32, 40]),
    "depth, first group of 8": (edge_depth, 64, [8, 32, 64]),
}


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:160] if lines else "no output"


def ask_edges(report):
    for name in EDGE_QUESTIONS:
        ran = subprocess.run(
            [sys.executable, __file__, "--edge", name], capture_output=True, text=True, timeout=120
        )
        answer = (
            ran.stdout.strip()
            if ran.returncode == 0
            else f"exit {ran.returncode}: {last_line(ran.stderr)}"
        )
        report.note(f"ATen: {name}: {answer}")


class Report:
    def __init__(self):
        self.failed = 0

    def __call__(self, text, problem=None):
        self.failed += problem is not None
        print(f"FAIL  {text}: {problem}" if problem else f"ok    {text}", flush=True)

    def note(self, text):
        print(f"note  {text}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--library", help="path of libshardfuzz_kernels_shared.so")
    parser.add_argument("--cases", type=int, default=1000, help="random quantizer cases (1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--edge", choices=EDGE_QUESTIONS, help="answer one question about ATen")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("against_torchao: no GPU that torch can use here", file=sys.stderr)
        return 2
    if options.edge:
        question, *arguments = EDGE_QUESTIONS[options.edge]
        print(question(*arguments))
        return 0
    from torchao.prototype.moe_training import kernels as ao

    try:
        kernels = Kernels(options.library or "")
    except (KernelError, OSError) as error:
        print(f"against_torchao: {error}", file=sys.stderr)
        return 2
    report = Report()
    check_quantizers(kernels, ao, report, options.cases, options.seed)
    check_scales(kernels, ao, report)
    check_matmul(kernels, report)
    check_weight_gradient(kernels, report)
    ask_edges(report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
