"""Coverage in a worker: the trace is the same with and without, and what runs is what is marked."""

import os

import pytest
import worker_client
from worker_client import case

HERE = os.path.dirname(os.path.abspath(__file__))
MIXED = {"param_dtype": "bf16", "reduce_dtype": "fp32"}
WRAPPER = "torchao/prototype/moe_training/tensor.py"
PARAM = "torch/distributed/fsdp/_fully_shard/_fsdp_param.py"


def experts(hook, count):
    param = {"pack": "torchao_moe_fp8", "hook": hook, "call": "grouped_mm"}
    return {"params": [{**param, "shape": [count, 32, 16]}], "mixed_precision": MIXED}


class Covered:
    """A worker with coverage, and what it has marked."""

    def __init__(self, file, *packs):
        self.file = file
        self.worker = worker_client.Worker(*packs, coverage=file)
        table = self.worker.hello["coverage"]
        self.files = [name for name, _ in table["files"]]
        self.counters = table["counters"]

    def run(self, the_case):
        with open(self.file, "r+b") as file:
            file.write(bytes(os.path.getsize(self.file)))
        return self.worker.run(the_case)

    def marked(self):
        hits = self.file.read_bytes()
        assert not any(hits[len(self.counters) :])
        return [row for row, hit in zip(self.counters, hits) if hit]

    def functions(self, name):
        return {row[4] for row in self.marked() if self.files[row[0]] == name}


@pytest.fixture(scope="module")
def covered(tmp_path_factory):
    file = tmp_path_factory.mktemp("coverage") / "bytes"
    made = Covered(file, os.path.join(HERE, "testdata", "names_paths.py"))
    yield made
    made.worker.close()


@pytest.fixture(scope="module")
def plain():
    made = worker_client.Worker(os.path.join(HERE, "testdata", "names_paths.py"))
    yield made
    made.close()


@pytest.mark.parametrize("hook", ["padded", "one_arg", "shipped"])
def test_the_trace_is_the_same(covered, plain, hook):
    the_case = case([experts(hook, 3), experts(hook, 4)], 2, steps=2)
    events = covered.run(the_case)
    assert len(events) >= 10
    assert events == plain.run(the_case)
    assert len(covered.marked()) > 300
    assert ("raised" in [event["kind"] for event in events]) == (hook != "padded")


def test_marks_are_those_of_the_case(covered):
    covered.run(case([[{"pack": "plain", "shape": [4, 4]}]], 2))
    assert covered.functions(WRAPPER) == set()
    assert "FSDPParam.init_unsharded_param" in covered.functions(PARAM)
    hook = "TrainingWeightWrapperBaseTensor.fsdp_post_all_gather"
    covered.run(case([experts("shipped", 4)], 2))
    assert hook in covered.functions(WRAPPER)
    before = covered.marked()
    covered.run(case([experts("shipped", 4)], 2))
    assert covered.marked() == before


def test_nothing_is_marked_before_the_first_case(covered):
    """Fresh bytes, a fresh worker: start-up imports and warms up, and is no case."""
    file = covered.file.parent / "fresh"
    other = Covered(file)
    other.worker.close()
    assert len(other.counters) > 2000
    assert other.marked() == []


def test_a_pack_named_on_the_command_line_is_covered(covered):
    covered.run(case([[{"pack": "names_paths", "shape": [4]}]], 1))
    assert covered.functions("names_paths.py") >= {"NamesPaths.sharded_type"}
    assert not any("torchao_moe_fp8" in name for name in covered.files)
    assert "coverage" in covered.worker.hello


def test_without_coverage_the_hello_has_none(plain):
    assert "coverage" not in plain.hello
