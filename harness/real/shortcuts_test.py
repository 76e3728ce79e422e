"""Runs with and without shortcuts give one trace, and each takes the path that it says."""

import collections
import importlib.util
import os
import sys

import pytest
import torch
import worker_client
from torch.utils import _pytree as pytree
from worker_client import case

HERE = os.path.dirname(os.path.abspath(__file__))
MIXED = {"param_dtype": "bf16", "reduce_dtype": "fp32"}


def experts(hook, count):
    param = {"pack": "torchao_moe_fp8", "hook": hook, "call": "grouped_mm"}
    return {"params": [{**param, "shape": [count, 32, 16]}], "mixed_precision": MIXED}


@pytest.fixture(scope="module")
def worker():
    made = worker_client.Worker(os.path.join(HERE, "testdata", "names_paths.py"))
    yield made
    made.close()


@pytest.mark.parametrize("hook", ["padded", "one_arg"])
def test_both_give_the_same_events(worker, hook):
    the_case = case([experts(hook, 3), experts(hook, 4)], 2, steps=2)
    quick = worker.run(the_case)
    assert worker.run(the_case, unaided=True) == quick
    assert worker.run(the_case) == quick
    assert len(quick) > 10


def test_each_run_takes_the_path_it_says(worker):
    the_case = case([[{"pack": "names_paths", "shape": [4]}]], 1)

    def types(**how):
        return [
            event["data"]["expected_type"]
            for event in worker_client.of_kind(worker.run(the_case, **how), "sharded")
        ]

    assert types() == ["_NoRange _QuickPytree"]
    assert types(unaided=True) == ["record_function module"]
    assert types() == ["_NoRange _QuickPytree"]


def test_the_quick_walk_does_what_pytree_does():
    path = os.path.join(HERE, "shardfuzz_real", "shortcuts.py")
    spec = importlib.util.spec_from_file_location("shortcuts_under_test", path)
    shortcuts = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = shortcuts
    spec.loader.exec_module(shortcuts)
    pair = collections.namedtuple("pair", "a b")
    trees = [
        (),
        1,
        [1, (2, {"k": 3, "l": [4, None]}), "text", 5.0],
        pair(1, (2, "x")),
        collections.OrderedDict(z=1, a=[2]),
        collections.deque([1, 2]),
        torch.Size([1, 2]),
        {"dtype": torch.bfloat16, "n": {1: [1]}},
    ]
    for tree in trees:
        want = pytree.tree_map_only(int, lambda x: x + 10, tree)
        got = shortcuts._map_only(int, lambda x: x + 10, tree)
        assert got == want
        assert type(got) is type(want)
