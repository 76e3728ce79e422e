"""The command line program while it fuzzes: what it finds, what it loses, and how it is stopped.

Guarantees checked: one outcome whatever the number of workers and whatever happens to them; a pack
that kills its worker is a finding with a signature and a small case; nothing that was found is lost
and no process is left, however the program ends. Use: SHARDFUZZ_BUILD=BUILD python -m pytest
tools/cli_fuzz_test.py
"""

import json
import re
import signal

import pytest
from cli_support import (
    BAD_INPUT,
    DIFFERS,
    DONE,
    PACKS,
    STOP_S,
    Running,
    is_zombie,
    kill_worker,
    needs_worker,
    run,
    wait_for,
)

PROGRESS = re.compile(r"\d+ cases  [\d.]+/s  [\d.]+ ranks a case  \d+ distinct failures? .*")


def pack_options(*packs):
    return [part for pack in packs for part in ("--pack", PACKS / f"{pack}.py")]


def only(*packs):
    return [part for pack in packs for part in ("--only", pack)]


def texts_of(folder):
    """{name: text} of the found cases; but for where the run stands, nothing else may be there,
    such as half of a file."""
    files = sorted(file for file in folder.iterdir() if file.name != ".shardfuzz-run")
    assert all(file.suffix == ".json" for file in files), files
    return {file.name: file.read_text() for file in files}


def signatures_of(folder):
    return {json.loads(text)["expect"]["signature"] for text in texts_of(folder).values()}


# --- one outcome ---------------------------------------------------------------------------------

# Of the built-in packs those that fail often and shrink fast. The bound in seconds is out of reach:
# what is cut by time depends on the machine.
FIXED = [
    "fuzz",
    "--engine",
    "property",
    "--cases",
    60,
    "--seed",
    7,
    "--minimize-seconds",
    100000,
    "--fail-on-new",
]
FIXED += ["--only", "torchao_moe_fp8:shipped", "--only", "plain"]


@pytest.fixture(scope="module")
def one_worker(tmp_path_factory):
    """(folder, run) of the fixed cases with one worker, nothing known, as JSON."""
    folder = tmp_path_factory.mktemp("one")
    (folder / "nothing_known").mkdir()
    line = ["--workers", 1, "--json", "--known", folder / "nothing_known", "-o", folder / "found"]
    return folder / "found", run(*FIXED, *line)


@needs_worker
def test_json_lines_tell_all_that_was_found(one_worker):
    folder, ran = one_worker
    ran.expect(DIFFERS)  # --fail-on-new
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert len(lines) >= 2
    assert {line["signature"] for line in lines} == signatures_of(folder)
    for line in lines:
        case = json.loads((folder / line["file"].rsplit("/", 1)[1]).read_text())
        assert case["expect"]["signature"] == line["signature"]
        assert case["predicate"] == line["predicate"]
        assert case["origin"]["source"].endswith(f"(case {line['found_at_case']})")
        assert line["known"] is False and line["minimized"] is True and line["evaluations"] > 0
    run("cases", "check", folder).expect(DONE)


@needs_worker
def test_the_same_cases_give_the_same_files_though_a_worker_is_killed(one_worker, tmp_path):
    folder, _ = one_worker
    again = tmp_path / "found"
    line = [*FIXED, "--workers", 2, "--known", folder, "-o", again]
    with Running(tmp_path, *line) as running:
        for kill_count in range(3):
            running.wait_for_text("FOUND")
            before = set(running.workers_seen)
            victim = sorted(running.workers())[0]
            kill_worker(victim)
            wait_for(lambda: not is_zombie(victim), "the reaping of the killed worker", seconds=30)
            wait_for(lambda: not running.workers() <= before or has_ended(running), "another one")
        ran = running.wait().expect(DONE, "  [known]")  # --fail-on-new: all is known
        running.assert_no_worker_left()
    assert texts_of(again) == texts_of(folder)
    assert ", 0 errors;" in ran.err and "0 workers lost" in ran.err, ran
    assert "crash" not in ran.out


def has_ended(running):
    return running.process.poll() is not None


# --- packs that kill their worker ----------------------------------------------------------------

LOSSES = {
    "segfault:short|crash|SIGSEGV|-",
    "aborts:abort|crash|SIGABRT|-",
    "aborts:leave|crash|exit code 0|-",
    "loops_for_ever:short|hang|-|-",
    "eats_memory:short|memory|-|-",
}
KILLERS = ["segfault", "aborts", "loops_for_ever", "eats_memory"]
BOUNDS = ["--timeout", 3, "--memory", 1500]


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    """(folder, run) of fuzzing all packs that kill their worker."""
    folder = tmp_path_factory.mktemp("lost")
    line = ["fuzz", *pack_options(*KILLERS), *only(*KILLERS), *BOUNDS, "--cases", 20, "--seed", 1]
    with Running(folder, *line, "--minimize-seconds", 2, "-o", folder / "found") as running:
        ran = running.wait()
        running.assert_no_worker_left()
    return folder / "found", ran


@needs_worker
def test_a_pack_that_kills_its_worker_is_a_finding_and_fuzzing_goes_on(lost):
    folder, ran = lost
    ran.expect(DONE, "20 cases in ", " 0 errors;")
    assert signatures_of(folder) >= LOSSES, ran
    passed = int(re.search(r"(\d+) passed", ran.err)[1])
    assert passed > 0, "the same packs pass where no shard is short"


@needs_worker
def test_what_killed_its_worker_is_shrunk(lost, tmp_path):
    folder, _ = lost
    [name] = [n for n, text in texts_of(folder).items() if "SIGSEGV" in text]
    small = tmp_path / "small.json"
    # Bounded in evaluations, not in time: each of them starts a worker anew.
    bounds = [*BOUNDS, "--evaluations", 5, "--seconds", 200]
    run("minimize", folder / name, *pack_options("segfault"), *bounds, "-o", small).expect(DONE)
    case = json.loads(small.read_text())
    assert len(case["groups"]) == 1 and len(case["groups"][0]["params"]) == 1
    assert case["groups"][0]["params"][0]["shape"][1:] == [16, 16]
    assert case["steps"] == 1 and "|crash|SIGSEGV|" in case["expect"]["signature"]


@needs_worker
def test_progress_is_told_in_lines_where_stderr_is_no_terminal(lost):
    _, ran = lost
    assert "\r" not in ran.err and "\033" not in ran.out + ran.err
    lines = [line for line in ran.err.splitlines() if line.count("ranks a case")]
    assert len(lines) >= 2
    assert all(PROGRESS.fullmatch(line) for line in lines), lines


@needs_worker
def test_what_killed_its_worker_replays(lost):
    folder, _ = lost
    signatures = {n: json.loads(t)["expect"]["signature"] for n, t in texts_of(folder).items()}
    files = [folder / name for name, signature in signatures.items() if signature in LOSSES]
    ran = run("replay", *files, *pack_options(*KILLERS), *BOUNDS, "--json").expect(DONE)
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert len(lines) == len(files)
    for line in lines:
        assert line["result"]["trace_digest"] == "" and line["digests"] == 0
        assert line["result"]["verdict"] == "fail"
    assert {line["result"]["signature"] for line in lines} == LOSSES
    run("replay", files[0]).expect(BAD_INPUT, "unknown pack", "--pack")  # without its pack


# --- ends ----------------------------------------------------------------------------------------


@needs_worker
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_fuzzing_and_loses_nothing(number, tmp_path):
    found = tmp_path / "found"
    line = ["fuzz", "--engine", "property", "--seed", 7, "--minimize-seconds", 0, "-o", found]
    if number == signal.SIGTERM:  # while it shrinks what kills workers
        line = ["fuzz", "--seed", 1, *pack_options("segfault"), *only("segfault"), "-o", found]
    with Running(tmp_path, *line) as running:
        running.wait_for_text("FOUND")
        if number == signal.SIGTERM:
            running.wait_for_workers(4)
        ran = running.stop(number).expect(DONE)
        assert ran.seconds < STOP_S
        running.assert_no_worker_left()
    told = set(re.findall(r"^FOUND  (.*?)  ", ran.out, re.M))
    assert told and told == signatures_of(found)
    if number == signal.SIGTERM:
        return
    # What is there already is not found again; the rest is.
    again = run(*line, "--cases", 40).expect(DONE)
    told_again = set(re.findall(r"^FOUND  (.*?)  ", again.out, re.M))
    assert told_again and not told & told_again
    assert signatures_of(found) == told | told_again
    run("cases", "check", found).expect(DONE)


@needs_worker
def test_a_signal_ends_a_case_that_hangs(tmp_path):
    pack, mark = tmp_path / "hangs.py", tmp_path / "it hangs"
    source = (PACKS / "loops_for_ever.py").read_text()
    pack.write_text(source.replace("pass", f"open({str(mark)!r}, 'w').close()"))
    line = ["fuzz", "--pack", pack, "--only", "loops_for_ever", "-o", tmp_path / "found"]
    with Running(tmp_path, *line, "--timeout", 3600) as running:
        wait_for(mark.exists, "the hang")
        ran = running.stop(signal.SIGINT).expect(DONE, "distinct failures")
        assert ran.seconds < STOP_S
        running.assert_no_worker_left()


@needs_worker
def test_a_killed_engine_leaves_no_worker_and_no_half_of_a_file(tmp_path):
    found = tmp_path / "found"
    with Running(tmp_path, "fuzz", "--engine", "property", "--seed", 7, "-o", found) as running:
        running.wait_for_text("FOUND")
        ran = running.stop(signal.SIGKILL)
        assert ran.code == -signal.SIGKILL
        running.assert_no_worker_left()
    assert running.workers_seen
    told = set(re.findall(r"^FOUND  (.*?)  ", ran.out, re.M))
    assert told and told <= signatures_of(found)
    run("cases", "check", found).expect(DONE)


# --- a run that goes on --------------------------------------------------------------------------


@needs_worker
def test_a_run_in_two_parts_is_the_run_in_one(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    fixed = [word for word in FIXED if word != "--fail-on-new"]
    run(*fixed, "--output", whole).expect(DONE)
    run(*[25 if word == 60 else word for word in fixed], "--output", parts).expect(DONE)
    assert len(texts_of(parts)) < len(texts_of(whole))
    ran = run(*fixed, "--resume", "--output", parts).expect(DONE)
    assert "35 cases in " in ran.err
    assert texts_of(parts) == texts_of(whole)


@needs_worker
def test_a_run_goes_on_only_as_itself(tmp_path):
    run("fuzz", "--resume", "--output", tmp_path).expect(BAD_INPUT, "no run is kept", "--resume")
    line = ["fuzz", "--engine", "property", "--cases", 3, "--output", tmp_path]
    run(*line, "--seed", 4).expect(DONE)
    kept = (tmp_path / ".shardfuzz-run").read_text()
    assert json.loads(kept)["next_case"] == 3
    run(*line, "--seed", 5, "--resume").expect(BAD_INPUT, "seed 4", "seed 5")
    (tmp_path / ".shardfuzz-run").write_text(kept[: len(kept) // 2])
    run(*line, "--seed", 4, "--resume").expect(BAD_INPUT, "not a file of a kept run")
