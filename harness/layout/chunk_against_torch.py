"""Compares the shard algebra with torch: every dim-0 size 0..64 on every world size 1..16.

Usage: python chunk_against_torch.py PRINT_CHUNKS
"""

import subprocess
import sys

import torch
from torch.distributed.fsdp._fully_shard._fsdp_common import (
    _chunk_with_empty,
    _get_dim0_padded_size,
)


def main():
    lines = subprocess.run(
        [sys.argv[1]], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    checked = 0
    for line in lines:
        total, ranks, padded, *parts = line.split()
        total, ranks, padded = int(total), int(ranks), int(padded)
        rows = torch.arange(total)
        chunks = _chunk_with_empty(rows, ranks, dim=0)
        offset = 0
        for chunk, part in zip(chunks, parts, strict=True):
            want = f"{offset}:{len(chunk)}"
            assert part == want, f"{total} rows on {ranks} ranks: algebra {part}, torch {want}"
            offset += len(chunk)
            checked += 1
        assert padded == len(chunks[0]), (total, ranks, padded)
        full = _get_dim0_padded_size(torch.Size([total]), ranks)
        assert full[0] == padded * ranks, (total, ranks, full)
    assert len(lines) == 65 * 16, len(lines)
    print(
        f"{len(lines)} splits, {checked} shards: the algebra agrees with torch {torch.__version__}"
    )


if __name__ == "__main__":
    main()
