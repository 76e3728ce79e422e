"""The operator watch: reads of freed storage are events, and a process that dies or hangs says
where."""

import os
import signal
import time

import pytest
import worker_client
from worker_client import case

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "testdata")


def pack_file(name):
    return os.path.join(FOLDER, name + ".py")


def reads_freed(call):
    param = {"pack": "reads_freed", "call": call, "shape": [4, 4]}
    return case([[param], [param]], 2)


def new_worker():
    worker = worker_client.Worker(pack_file("reads_freed"), pack_file("never_ends"))
    yield worker
    worker.close()


shared_worker = pytest.fixture(scope="module", name="shared_worker")(new_worker)
lost_worker = pytest.fixture(name="lost_worker")(new_worker)  # for tests that it does not survive


def test_a_read_of_freed_storage_is_recorded_before_it_raises(shared_worker):
    events = shared_worker.run(reads_freed("linear"))
    reads = worker_client.of_kind(events, "freed_read")
    assert [(event["rank"], event["step"], event["phase"]) for event in reads] == [
        (0, 0, "forward"),
        (1, 0, "forward"),
    ]
    assert all(
        event["data"] == {"op": "aten::mm", "storage_bytes": 0, "needed_bytes": 64, "shape": [4, 4]}
        for event in reads
    )
    raised = worker_client.raised(events)
    assert sorted(raised) == [0, 1]
    assert "its data is not allocated yet" in raised[0][1]
    first_raise = worker_client.of_kind(events, "raised")[0]
    assert reads[0]["i"] < first_raise["i"]


def test_a_process_that_dies_names_the_operator(lost_worker):
    with pytest.raises(worker_client.Died) as died:
        lost_worker.run(reads_freed("mul"))
    assert died.value.number == signal.SIGSEGV
    assert died.value.last_words == "rank 0, step 0, forward, aten::mul reads freed storage"


def test_a_process_that_hangs_says_where_when_asked(lost_worker):
    lost_worker.send(case([[{"pack": "never_ends", "shape": [4]}]], 2))
    time.sleep(2)
    lost_worker.process.send_signal(signal.SIGUSR1)
    kind, words = lost_worker.receive()
    lost_worker.process.kill()
    assert kind == "L"
    assert words.startswith("rank 0, step 0, forward, aten::sinh")


def test_a_clean_run_reads_nothing_freed(shared_worker):
    param = {
        "pack": "torchao_moe_fp8",
        "hook": "shipped",
        "call": "grouped_mm",
        "shape": [4, 16, 16],
    }
    group = {"params": [param], "mixed_precision": {"param_dtype": "bf16"}}
    events = shared_worker.run(case([group, group], 2, steps=2))
    assert worker_client.of_kind(events, "freed_read") == []
    assert len(worker_client.of_kind(events, "finished")) == 2
