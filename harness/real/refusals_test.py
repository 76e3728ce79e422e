"""Every row of harness/oracle/refused_table.cc against the real code, on every rank."""

import pytest
import worker_client
from worker_client import case

EXPERTS = {
    "pack": "torchao_moe_fp8",
    "hook": "padded",
    "call": "grouped_mm",
    "dtype": "bf16",
    "shape": [4, 16, 16],
}
SCALES = {"pack": "data_and_scales", "hook": "padded", "shape": [4, 4]}
BF16 = {"param_dtype": "bf16"}

CASES = {
    "uneven-nonzero-dim": case([[{"shape": [4, 3], "shard_dim": 1}]], 2),
    "int-reshard-extension": case(
        [{"params": [EXPERTS], "mixed_precision": BF16, "reshard_after_forward": 2}], 4
    ),
    "int-reshard-many-outputs": case([{"params": [SCALES], "reshard_after_forward": 2}], 4),
    "mixed-original-dtype": case([[{"shape": [4]}, {"shape": [4], "dtype": "bf16"}]], 2),
    "mixed-gradient-dtype": case(
        [
            {
                "params": [
                    {**EXPERTS, "hook": "one_arg", "dtype": "fp32", "call": "mul"},
                    {"shape": [4]},
                ],
                "mixed_precision": BF16,
            }
        ],
        2,
    ),
    "grouped-mm-alignment": case(
        [[{"shape": [4, 16, 12], "dtype": "bf16", "call": "grouped_mm"}]], 2
    ),
    "fp8-grouped-mm-dtype": case(
        [{"params": [EXPERTS], "mixed_precision": {"param_dtype": "fp16"}}], 2
    ),
    "fp8-token-groups": case(
        [{"params": [EXPERTS], "mixed_precision": BF16}], 2, batch={"tokens_per_expert": 8}
    ),
    "scales-nonzero-dim": case([[{**SCALES, "shard_dim": 1}]], 2),
}
TABLE = {row["id"]: row for row in worker_client.facts()["refusals"]}


@pytest.fixture(scope="module")
def worker():
    worker = worker_client.Worker()
    yield worker
    worker.close()


def test_each_row_has_a_case():
    assert set(CASES) == set(TABLE)


@pytest.mark.parametrize("name", CASES)
def test_every_rank_says_no(worker, name):
    row = TABLE[name]
    events = worker.run(CASES[name])
    raised = worker_client.raised(events)
    assert sorted(raised) == list(range(CASES[name]["mesh"]["shape"][0]))
    assert not worker_client.of_kind(events, "mismatch")
    assert not worker_client.of_kind(events, "stuck")
    for kind, message, where in raised.values():
        assert kind == row["type"]
        assert row["message"] in message if row["message"] else message == ""
        assert where == row["where"] or not row["where"]
