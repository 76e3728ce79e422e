"""The command line program: what it refuses, replays, minimizes, and with which exit code.

Guarantees checked: bad input and a bad environment are exit code 2 with what, where and what to do,
never a crash and never a run of half of the input. What finds and loses things: cli_fuzz_test.py.
Use: SHARDFUZZ_BUILD=BUILD python -m pytest tools/cli_test.py
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from cli_support import (
    BAD_INPUT,
    DIFFERS,
    DONE,
    MAKE_MALFORMED,
    PACKS,
    PROGRAM,
    REGRESSION,
    STOP_S,
    Running,
    needs,
    needs_program,
    needs_worker,
    run,
    wait_for,
)

COMMANDS = "fuzz run replay minimize predicate bench doctor cases twin".split()
SEED = REGRESSION / "ao2673-minimized-e1-w2.json"  # fails
LARGE = REGRESSION / "control-padded-e5-w4-two-groups.json"  # passes; short and empty shards
CONTROL = REGRESSION / "control-plain-uneven.json"  # passes


def changed(file, folder, change):
    """A copy of a case file with its JSON changed."""
    case = json.loads(file.read_text())
    change(case)
    copy = folder / "changed.json"
    copy.write_text(json.dumps(case))
    return copy


def first_param(case):
    return next(param for group in case["groups"] for param in group["params"])


def failing(folder, pack, hook):
    """A case with something to shrink, of a pack that goes wrong on a short shard."""

    def change(case):
        for group in case["groups"]:
            for param in group["params"]:
                if param.get("pack") == "torchao_moe_fp8":
                    param.update(pack=pack, hook=hook)
        case["expect"] = {"verdict": "fail"}

    return changed(LARGE, folder, change)


# --- the command line ----------------------------------------------------------------------------


@needs_program
@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS), ["cases", "check"]])
def test_help_is_given_for_every_command(command):
    ran = run(*command, "--help").expect(DONE)
    assert ran.err == "" and "--help" in ran.out
    if not command:
        for name in COMMANDS:
            assert f"\n  {name} " in ran.out


@needs_program
@pytest.mark.parametrize(
    "line",
    [
        "",
        "nonsense",
        "fuzz --nonsense",
        "replay",
        "replay --times 0 x.json",
        "minimize",
        "minimize a.json b.json",
        "cases",
        "cases nonsense",
        "fuzz --cases -1",
        "fuzz --cases many",
        "fuzz --cases 99999999999999999999",
        "fuzz --seed -1",
        "fuzz --seed",
        "fuzz --seconds -1",
        "fuzz --seconds nan",
        "fuzz --workers 0",
        "fuzz --workers 65",
        "fuzz --timeout 0",
        "fuzz --memory 1",
        "fuzz --world-max 17",
        "fuzz --engine nonsense",
        "fuzz --minimize-seconds -1",
        "fuzz --pack /nowhere/pack.py",
        "fuzz --known /nowhere --cases 1",
    ],
)
def test_a_wrong_command_line_is_refused(line, tmp_path):
    ran = run(*line.split(), cwd=tmp_path).expect(BAD_INPUT)
    assert ran.err.strip() and ran.out == ""
    assert list(tmp_path.iterdir()) == []


@needs_program
def test_an_unknown_pack_is_refused_with_the_known_ones(tmp_path):
    ran = run("fuzz", "--only", "nonsense", "--cases", 1, "-o", tmp_path / "found")
    ran.expect(BAD_INPUT, "'nonsense'", "plain:none", "torchao_moe_fp8:shipped")
    assert not (tmp_path / "found").exists()


# --- case files ----------------------------------------------------------------------------------


@needs(PROGRAM, MAKE_MALFORMED)
def test_malformed_files_are_refused_one_by_one(tmp_path):
    subprocess.run([str(MAKE_MALFORMED), str(tmp_path)], check=True, stdout=subprocess.DEVNULL)
    files = sorted(tmp_path.glob("*.json"))
    assert len(files) >= 200
    seconds = []
    for file in files:
        ran = run("replay", file)
        assert ran.code == BAD_INPUT, ran
        assert ran.out == "" and ran.err.startswith(f"shardfuzz: {file}:"), ran
        seconds.append(ran.seconds)
    # Two orders of magnitude above what one takes: the machine may be busy for a moment.
    assert max(seconds) < 1, f"{files[seconds.index(max(seconds))]} takes {max(seconds)} s"


@needs(PROGRAM, MAKE_MALFORMED)
def test_cases_check_tells_of_every_broken_file(tmp_path):
    subprocess.run([str(MAKE_MALFORMED), str(tmp_path)], check=True, stdout=subprocess.DEVNULL)
    files = sorted(tmp_path.glob("*.json"))
    shutil.copy(SEED, tmp_path / "zz_good.json")
    ran = run("cases", "check", tmp_path).expect(BAD_INPUT)
    assert ran.out == f"{len(files)} of {len(files) + 1} case files broken\n"
    for file in files:
        assert f"shardfuzz: {file}:" in ran.err
    assert "zz_good" not in ran.err


@needs_program
def test_a_broken_file_among_good_ones_refuses_before_anything_runs(tmp_path):
    shutil.copy(SEED, tmp_path / "a_good.json")
    (tmp_path / "b_broken.json").write_text("{")
    shutil.copy(SEED, tmp_path / "c_good.json")
    for line in ["replay", "run", "cases list", "cases format", "bench"]:
        ran = run(*line.split(), tmp_path).expect(BAD_INPUT, f"{tmp_path}/b_broken.json")
        assert ran.out == "", ran
    assert (tmp_path / "a_good.json").read_text() == SEED.read_text()


@needs_program
def test_what_is_no_case_file_is_refused(tmp_path):
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "locked.json").write_text(SEED.read_text())
    (tmp_path / "locked.json").chmod(0)
    files = ["nowhere.json", "folder.json", "empty", "gone.json", "pipe.json"]
    if os.geteuid() != 0:  # root may read everything
        files.append("locked.json")
    for file in [*(tmp_path / name for name in files), "/proc/self/mem", ""]:
        for line in ["replay", "run", "minimize", "predicate", "cases check"]:
            ran = run(*line.split(), file).expect(BAD_INPUT, str(file))
            assert ran.out == "" or line == "cases check", ran


@needs_program
@pytest.mark.parametrize(
    "name", ["../packs/plain", "/tmp/evil", "evil.py", "os", "plain\0", "pl\u0430in", "", "x" * 500]
)
def test_a_case_cannot_name_code(name, tmp_path):
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')")
    name = name.replace("/tmp/evil", str(tmp_path / "evil.py"))
    file = changed(SEED, tmp_path, lambda case: first_param(case).update(pack=name))
    ran = run("replay", file, cwd=tmp_path).expect(BAD_INPUT, "/groups/0/params/0/pack")
    assert ran.out == ""
    assert not (tmp_path / "was_run").exists()


@needs_program
def test_a_pack_that_is_not_loaded_is_refused_with_the_list(tmp_path):
    file = changed(SEED, tmp_path, lambda case: first_param(case).update(pack="segfault"))
    run("replay", file).expect(
        BAD_INPUT, f"{file}: /groups/0/params/0/pack", "'segfault'", "torchao_moe_fp8", "--pack"
    )


# --- the environment -----------------------------------------------------------------------------


@needs_program
@pytest.mark.parametrize("line", ["replay CASE", "run CASE", "fuzz --cases 1", "doctor"])
def test_a_worker_that_is_not_there_is_told_with_what_to_do(line, tmp_path):
    arguments = line.replace("CASE", str(SEED)).split()
    ran = run(*arguments, "--worker", "/nowhere/worker", cwd=tmp_path)
    ran.expect(BAD_INPUT, "/nowhere/worker", "tools/setup")
    assert list(tmp_path.iterdir()) == []


@needs_worker
def test_a_python_without_torch_is_told_with_what_to_do():
    ran = run("replay", SEED, "--python", "/bin/false")
    ran.expect(BAD_INPUT, "/bin/false: ModuleNotFoundError: No module named 'torch'", "tools/setup")


@needs_worker
def test_a_worker_that_may_not_hold_enough_is_told_with_what_to_do():
    run("replay", SEED, "--memory", 512).expect(BAD_INPUT, "limit of 512 MiB", "raise --memory")


BROKEN_PACKS = {
    "raises_on_import.py": [
        "RuntimeError: this pack is broken on purpose",
        "raises_on_import.py(3)",
    ],
    "no_pack.py": ["defines no PACK"],
}
BROKEN_TEXTS = {
    "syntax": ("PACK = (", ["SyntaxError"]),
    "exits": ("import sys; sys.exit(0)", ["SystemExit"]),
    "taken": ("class P(Pack): name = 'plain'\nPACK = P()", ["'plain' is there already"]),
    "path": ("class P(Pack): name = '../x'\nPACK = P()", ["../x", "name is not a-z"]),
    "no_calls": ("class P(Pack): name, calls = 'x', ()\nPACK = P()", ["'x'", "empty"]),
    "call": ("class P(Pack): name, calls = 'x', ('y',)\nPACK = P()", ["'x'", "'y'"]),
    "no_hooks": ("class P(Pack): name, hooks = 'x', {}\nPACK = P()", ["'x'", "no hooks"]),
    "facts": ("class P(Pack): name, hooks = 'x', {'h': {}}\nPACK = P()", ["arguments"]),
}


@needs_worker
def test_a_broken_pack_is_told_with_its_file(tmp_path):
    packs = {PACKS / name: texts for name, texts in BROKEN_PACKS.items()}
    for name, (text, texts) in BROKEN_TEXTS.items():
        file = tmp_path / f"{name}.py"
        file.write_text(f"from shardfuzz_real.pack import Pack\n{text}\n")
        packs[file] = texts

    def load(file):
        return run("fuzz", "--pack", file, "--cases", 1, "-o", tmp_path / "found")

    with ThreadPoolExecutor(2) as pool:  # each start of a worker takes seconds
        for ran, (file, texts) in zip(pool.map(load, packs), packs.items()):
            ran.expect(BAD_INPUT, *texts)
            assert str(file) in ran.err or "pack '" in ran.err, ran
            assert ran.out == "", ran
    assert not (tmp_path / "found").exists()


# --- replay --------------------------------------------------------------------------------------


@needs_worker
def test_replay_gives_one_digest_whatever_the_machine_does():
    files = [SEED, CONTROL, REGRESSION / "ao2453-minimized-e3-w2.json"]

    def digests(*options):
        ran = run("replay", *files, "--times", 10, "--json", *options).expect(DONE)
        lines = [json.loads(line) for line in ran.out.splitlines()]
        assert [line["file"] for line in lines] == [str(file) for file in files]
        for line in lines:
            assert (line["runs"], line["unexpected"], line["digests"]) == (10, 0, 1)
        return [line["result"]["trace_digest"] for line in lines]

    quiet = digests("--workers", 1)
    assert all(len(digest) == 16 for digest in quiet) and len(set(quiet)) == 3
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        loaded = digests("--workers", 2)
        busy.kill()
    assert loaded == quiet


@needs_worker
def test_replay_tells_what_happened_as_text_and_as_json(tmp_path):
    def expect_pass(case):
        case["expect"] = {"verdict": "pass"}

    file = changed(SEED, tmp_path, expect_pass)
    ran = run("replay", SEED, file, "--workers", 1).expect(
        DIFFERS, f"ok   {SEED}", f"DIFF {file}", "1 of 2 cases behave", "cause: P1 rank 1"
    )
    assert "fails iff num_experts % shard_ranks != 0" in ran.out
    ran = run("replay", file, CONTROL, "--json", "--workers", 1).expect(DIFFERS)
    odd, good = (json.loads(line) for line in ran.out.splitlines())
    assert (odd["unexpected"], good["unexpected"]) == (1, 0)
    result = odd["result"]
    assert result["verdict"] == "fail" and good["result"]["verdict"] == "pass"
    assert result["signature"].startswith("torchao_moe_fp8:shipped|P1|")
    assert "rank 1 (empty shard) sends" in result["sentence"]
    assert [finding["property"] for finding in result["findings"]] == ["P1", "P3"]
    assert result["findings"][0]["rank"] == 1 and result["findings"][0]["param"] == "w"


@needs_worker
def test_run_prints_every_event_as_json():
    ran = run("run", SEED, "--trace", "--json").expect(DONE)
    *events, verdict = (json.loads(line) for line in ran.out.splitlines())
    assert {event["rank"] for event in events} >= {0, 1}
    assert verdict["verdict"] == "fail"


@needs_worker
def test_replay_of_no_failure_is_no_minimizing(tmp_path):
    output = tmp_path / "small.json"
    ran = run("minimize", CONTROL, "-o", output).expect(BAD_INPUT, str(CONTROL), "does not fail")
    assert ran.out == "" and not output.exists()


# --- minimize and predicate ----------------------------------------------------------------------


@needs_worker
def test_minimize_writes_a_whole_smaller_case_and_predicate_its_condition(tmp_path):
    small, known = tmp_path / "small.json", tmp_path / "known.json"
    large = failing(tmp_path, "torchao_moe_fp8", "shipped")
    run("minimize", large, "-o", small).expect(DONE, str(small))
    run("cases", "check", small).expect(DONE)
    after = json.loads(small.read_text())
    assert after["expect"]["signature"].startswith("torchao_moe_fp8:shipped|P1|AssertionError.")
    assert after["mesh"]["shape"] == [2] and len(after["groups"]) == 1

    # Onto itself, by another name: the file is replaced as a whole.
    shutil.copy(small, known)
    ran = run("predicate", known, "-o", known, "--seconds", 4).expect(DONE, "fails ")
    assert json.loads(known.read_text())["predicate"] == ran.out.splitlines()[0]
    assert sorted(tmp_path.iterdir()) == [large, known, small]


@needs_program
@pytest.mark.parametrize("command", ["minimize", "predicate"])
def test_an_output_that_cannot_be_written_is_refused_first(command, tmp_path):
    (tmp_path / "folder").mkdir()
    for output in [tmp_path / "nowhere" / "x.json", tmp_path / "folder", "/proc/x.json"]:
        # No worker is there: whatever is refused is refused before a case runs.
        ran = run(command, SEED, "-o", output, "--worker", "/nowhere/worker")
        ran.expect(BAD_INPUT, "cannot be written", "--output")
        assert "worker" not in ran.err
    assert list(tmp_path.rglob("*")) == [tmp_path / "folder"]


@needs_worker
@pytest.mark.parametrize("target", ["a_file", "/proc/found"])
def test_a_folder_of_findings_that_cannot_be_written_is_refused(target, tmp_path):
    (tmp_path / "a_file").write_text("kept")
    ran = run("fuzz", "--cases", 1, "-o", target, cwd=tmp_path).expect(BAD_INPUT, target)
    assert "FOUND" not in ran.out
    assert (tmp_path / "a_file").read_text() == "kept"


@needs_worker
def test_minimize_stops_when_asked_within_a_case_that_hangs(tmp_path):
    file = failing(tmp_path, "loops_for_ever", "short")
    mark = tmp_path / "it hangs"
    pack = tmp_path / "loops_and_tells.py"
    source = (PACKS / "loops_for_ever.py").read_text()
    pack.write_text(source.replace("pass", f"open({str(mark)!r}, 'w').close()"))
    output = tmp_path / "small.json"
    with Running(tmp_path, "minimize", file, "--pack", pack, "-o", output) as running:
        wait_for(mark.exists, "the hang")
        ran = running.stop(signal.SIGINT)
        assert ran.seconds < STOP_S
        ran.expect(BAD_INPUT, "interrupted")
        running.assert_no_worker_left()
    assert not output.exists()


@needs_worker
def test_minimize_keeps_the_best_when_it_is_stopped(tmp_path):
    file = failing(tmp_path, "segfault", "short")
    output = tmp_path / "small.json"
    line = ["minimize", file, "--pack", PACKS / "segfault.py", "-o", output, "--workers", 1]
    with Running(tmp_path, *line) as running:
        running.wait_for_workers(3)  # each crash costs one: the first two are behind us
        ran = running.stop(signal.SIGTERM).expect(DONE, str(output))
        assert ran.seconds < STOP_S
        running.assert_no_worker_left()
    run("cases", "check", output).expect(BAD_INPUT, "unknown pack 'segfault'")  # whole otherwise
    assert json.loads(output.read_text())["expect"]["signature"].endswith("|crash|SIGSEGV|-")
    assert sorted(tmp_path.glob("*.json*")) == [file, output]
