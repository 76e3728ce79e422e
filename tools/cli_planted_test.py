"""Each pack of fuzz/planted is wrong in one place, and a short run finds it."""

import json

import pytest
from cli_support import DONE, ROOT, needs_worker, run

PACKS = sorted((ROOT / "fuzz" / "planted").glob("*.py"))
SIGNATURES = {  # that one of the findings has
    "drops_last_expert": "|P5|",
    "extra_collective": "|P2|",
    "ignores_out": "|P5|",
    "pads_by_other_dim": "|P1|",
    "scale_of_another_row": "|P6|",
    "stale_short_shard": "|P5|",
}


def test_every_planted_pack_is_listed():
    assert [pack.stem for pack in PACKS] == sorted(SIGNATURES)


@needs_worker
@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.stem)
def test_a_planted_bug_is_found(pack, tmp_path):
    ran = run(
        *["fuzz", "--engine", "property", "--pack", pack, "--only", pack.stem],
        *["--documented-use", "--cases", 48, "--seed", 1, "--minimize-seconds", 0],
        *["--output", tmp_path, "--json"],
    ).expect(DONE)
    found = [json.loads(line)["signature"] for line in ran.out.splitlines()]
    assert any(SIGNATURES[pack.stem] in signature for signature in found), found
