"""The kernels' speed on a GPU, beside torchao's Triton kernels in the same run.

    python3 kernels/bench.py --library .../libshardfuzz_kernels_shared.so [--json FILE]

Shapes of Llama 4 Scout (16 experts, 5120 x 8192, 16384 tokens), random data. Median of the runs
after a warm-up, by CUDA events. Bandwidth counts 3 bytes an element (bf16 in, e4m3 out) and is told
as a share of what this GPU moves in a copy, measured first, and of 4.3 TB/s.
"""

import argparse
import json
import statistics
import subprocess
import sys

import torch

from device_kernels import KernelError, Kernels, quantized_like

E4M3 = torch.float8_e4m3fn
REFERENCE_BYTES_PER_SECOND = 4.3e12  # a device copy on an H200, read and written
TOKENS, DEPTH, COLUMNS, EXPERTS = 16384, 5120, 8192, 16


def median_seconds(call, runs=30, warm_up=8):
    for _ in range(warm_up):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(runs):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def random_bf16(*shape):
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def copy_bytes_per_second():
    source = torch.empty(1 << 30, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    return 2 * source.numel() / median_seconds(lambda: target.copy_(source))


def even_ends(tokens, groups):
    return torch.arange(1, groups + 1, dtype=torch.int32, device="cuda") * (tokens // groups)


def quantizer_cases(kernels, ao):
    """(name, elements, ours, theirs)."""
    rows = random_bf16(TOKENS, DEPTH)
    out = quantized_like(rows, 1, TOKENS, DEPTH)
    yield (
        f"rows ({TOKENS}, {DEPTH})",
        rows.numel(),
        lambda: kernels.rowwise_2d(rows, out),
        lambda: ao.triton_fp8_rowwise_2d_scale_and_cast(rows, E4M3, True),
    )
    weights = random_bf16(EXPERTS, COLUMNS, DEPTH).transpose(1, 2)
    whole = quantized_like(weights, EXPERTS, COLUMNS, DEPTH)
    yield (
        f"weights ({EXPERTS}, {DEPTH}, {COLUMNS}), scale a column",
        weights.numel(),
        lambda: kernels.colwise_3d(weights, whole),
        lambda: ao.triton_fp8_colwise_3d_scale_and_cast(weights, E4M3, True),
    )
    turned = quantized_like(weights, EXPERTS, DEPTH, COLUMNS)
    yield (
        f"weights ({EXPERTS}, {DEPTH}, {COLUMNS}), turned over",
        weights.numel(),
        lambda: kernels.rowwise_transpose_rhs(weights, turned),
        lambda: ao.triton_fp8_rowwise_3d_transpose_rhs(weights, E4M3, True),
    )
    gradient = random_bf16(TOKENS, COLUMNS)
    for groups in (EXPERTS, 128):
        ends = even_ends(TOKENS, groups)
        first = quantized_like(gradient, groups, COLUMNS, TOKENS, grouped=True)
        second = quantized_like(rows, groups, DEPTH, TOKENS, grouped=True)

        def ours(ends=ends, first=first, second=second):
            kernels.per_group_colwise(gradient, ends, first)
            kernels.per_group_colwise(rows, ends, second)

        yield (
            f"pair ({TOKENS}, {COLUMNS} and {DEPTH}), {groups} groups",
            gradient.numel() + rows.numel(),
            ours,
            lambda ends=ends: ao.triton_fp8_per_group_colwise_scales_dual(
                gradient, rows, ends, E4M3, True
            ),
        )


def bench_quantizers(kernels, ao, copy_speed):
    results = []
    for name, elements, ours, theirs in quantizer_cases(kernels, ao):
        mine, other = median_seconds(ours), median_seconds(theirs)
        speed = 3 * elements / mine
        results.append(
            {
                "name": name,
                "us": mine * 1e6,
                "bytes_per_s": speed,
                "share_of_4.3": speed / REFERENCE_BYTES_PER_SECOND,
                "share_of_copy": speed / copy_speed,
                "torchao_us": other * 1e6,
                "times_faster": other / mine,
            }
        )
        print(
            f"{name:48} {mine * 1e6:8.1f} us {speed / 1e12:5.2f} TB/s"
            f" {speed / REFERENCE_BYTES_PER_SECOND:5.0%} of 4.3, {speed / copy_speed:4.0%} of copy;"
            f" torchao {other * 1e6:8.1f} us, {other / mine:.2f} times",
            flush=True,
        )
    return results


def bench_copies(kernels):
    """(name, bytes read and written, call): what FSDP2 does around an all-gather."""
    buffer = torch.empty(1 << 30, device="cuda", dtype=torch.uint8)
    target = torch.empty(1 << 30, device="cuda", dtype=torch.uint8)
    results = []
    for shift in (0, 4, 1):
        parts = 64
        size = (1 << 30) // parts - 64
        segments = [
            (
                buffer.data_ptr() + i * (size + 64) + shift,
                target.data_ptr() + i * (size + 64),
                size,
                0,
            )
            for i in range(parts)
        ]
        seconds = median_seconds(lambda: kernels.copy(segments))
        moved = 2 * size * parts
        results.append({"name": f"copy, source {shift} bytes off", "bytes_per_s": moved / seconds})
        print(
            f"copy of {parts} shards, source {shift} bytes off {moved / seconds / 1e12:32.2f} TB/s"
        )
    seconds = median_seconds(lambda: kernels.digest(buffer))
    results.append({"name": "digest", "bytes_per_s": buffer.numel() / seconds})
    print(f"digest {buffer.numel() / seconds / 1e12:65.2f} TB/s read")
    return results


def clocks():
    query = "name,driver_version,clocks.sm,clocks.mem"
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.strip()
    except OSError:
        return torch.cuda.get_device_name()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--library", required=True, help="path of libshardfuzz_kernels_shared.so")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("bench: no GPU that torch can use here", file=sys.stderr)
        return 2
    import torchao
    from torchao.prototype.moe_training import kernels as ao

    try:
        kernels = Kernels(options.library)
    except (KernelError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    copy_speed = copy_bytes_per_second()
    head = f"{clocks()}; torch {torch.__version__}, torchao {torchao.__version__}"
    print(f"{head}; device copy {copy_speed / 1e12:.2f} TB/s", flush=True)
    results = bench_quantizers(kernels, ao, copy_speed) + bench_copies(kernels)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": head, "copy": copy_speed, "results": results}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
