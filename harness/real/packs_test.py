"""The packs against what C++ says of them, and what each does where rows are even, short or
missing."""

import pytest
import worker_client
from worker_client import case

# Rows by which the shards of 1, 2 and 3 ranks are even, the last is short, or the last has none.
ROWS = {
    1: {"even": 4},
    2: {"even": 4, "short": 3, "empty": 1},
    3: {"even": 6, "short": 5, "empty": 4},
}
FP8 = {"torchao_moe_fp8", "torchao_float8_linear"}

OUT_OF_BOUNDS = ("RuntimeError", "out of bounds for storage of size")
UNPADDED = ("AssertionError", "fsdp_pre_all_gather must return all-gather inputs with the padded")
NO_MAXIMUM = (
    "RuntimeError",
    "max(): Expected reduction dim to be specified for input.numel() == 0",
)
ONE_OUTPUT = ("ValueError", "not enough values to unpack (expected 2, got 1)")

# What the last rank raises, where a pack does not finish: by pack, hook and kind of rows.
FAILS = {
    ("torchao_moe_fp8", "shipped", "short"): UNPADDED,
    ("torchao_moe_fp8", "shipped", "empty"): UNPADDED,
    ("torchao_moe_fp8", "one_arg", "short"): OUT_OF_BOUNDS,
    ("torchao_moe_fp8", "one_arg", "empty"): OUT_OF_BOUNDS,
    ("torchao_float8_linear", "shipped", "short"): OUT_OF_BOUNDS,  # pytorch/ao#3982
    ("torchao_float8_linear", "shipped", "empty"): NO_MAXIMUM,  # pytorch/ao#1938
}


@pytest.fixture(scope="module")
def worker():
    worker = worker_client.Worker()
    yield worker
    worker.close()


def by_name(packs):
    return {pack["name"]: pack for pack in packs}


FACTS = by_name(worker_client.facts()["packs"])


def test_python_and_cpp_say_the_same_of_each_pack(worker):
    assert by_name(worker.hello["packs"]) == FACTS


def one(pack, hook, rows, world_size, **more):
    facts = FACTS[pack]
    width = facts["dim_multiple"] * (1 if facts["dim_multiple"] > 1 else 16)
    call = facts["calls"][0]
    shape = [rows, width, width] if call.startswith("grouped") else [rows, width]
    group = {"params": [{"pack": pack, "hook": hook, "call": call, "shape": shape}]}
    if facts["needs_param_dtype"]:
        group["mixed_precision"] = {"param_dtype": "bf16", "reduce_dtype": "fp32"}
    return case([group], world_size, **more)


RUNS = [
    (pack, hook["name"], world_size, kind)
    for pack, facts in FACTS.items()
    for hook in facts["hooks"]
    for world_size, kinds in ROWS.items()
    for kind in kinds
]


@pytest.mark.parametrize("pack,hook,world_size,kind", RUNS)
def test_which_finish(worker, pack, hook, world_size, kind):
    events = worker.run(one(pack, hook, ROWS[world_size][kind], world_size))
    raised = worker_client.raised(events)
    expected = FAILS.get((pack, hook, kind))
    if pack == "data_and_scales" and world_size == 1:
        expected = ONE_OUTPUT  # pytorch/pytorch#197999
    assert not worker_client.of_kind(events, "freed_read")
    if expected is None:
        assert raised == {}
        finished = [event["rank"] for event in worker_client.of_kind(events, "finished")]
        assert sorted(finished) == list(range(world_size))
        wrong = [
            event
            for event in worker_client.of_kind(events, "reference")
            if event["data"]["missing"] or event["data"]["differing"]
        ]
        assert wrong == []
        assert len(worker_client.of_kind(events, "reference")) > 0
        return
    kind_of_error, message, _ = raised[world_size - 1]
    assert kind_of_error == expected[0]
    assert expected[1] in message
    assert worker_client.of_kind(events, "finished") == []


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("dtype,size", [("fp32", 4), ("bf16", 2)])
def test_float8_linear_reduces_its_largest_value_at_each_gather(worker, world_size, dtype, size):
    described = one("torchao_float8_linear", "shipped", 4, world_size)
    described["groups"][1]["params"][0]["dtype"] = dtype
    events = worker.run(described)
    calls = [event["data"]["call"] for event in worker_client.of_kind(events, "launch")]
    reductions = [call for call in calls if call["kind"] == "all_reduce"]
    gathers = [call for call in calls if call["kind"] == "all_gather"]
    # A world of one gathers nothing and still issues the all-reduce, in forward and in backward.
    assert len(reductions) == 2 * world_size
    assert {(call["count"], call["bytes"], call["reduce"]) for call in reductions} == {
        (1, size * FACTS["torchao_float8_linear"]["hook_all_reduce_elements"], "max")
    }
    assert len(gathers) == (0 if world_size == 1 else 2 * world_size)
    assert all(call["bytes"] == call["count"] for call in gathers)


def test_data_and_scales_sends_both_padded(worker):
    events = worker.run(one("data_and_scales", "padded", 3, 2))
    sent = [event["data"]["inputs"] for event in worker_client.of_kind(events, "pre_all_gather")]
    assert len(sent) == 4
    for data, scales in sent:
        assert (data["shape"], data["dtype"]) == ([2, 16], "bfloat16")
        assert (scales["shape"], scales["dtype"]) == ([2], "float32")
    unsharded = worker_client.of_kind(events, "unsharded")
    assert len(unsharded) == 4
    assert all(event["data"]["tags"] == 0 for event in unsharded)
