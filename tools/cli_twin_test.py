"""The C++ twin through the command line: it is the real target again, and a wrong one shows."""

import json

import pytest
from cli_support import BAD_INPUT, DIFFERS, DONE, NATIVE_WORKER, REGRESSION, needs, run

needs_twin = needs(NATIVE_WORKER)
CONTROLS = ["--only", "plain", "--only", "torchao_moe_fp8:padded"]


@needs_twin
def test_the_kept_cases_are_the_same_on_both():
    ran = run("twin", REGRESSION).expect(DONE)
    lines = ran.out.splitlines()
    same = [line for line in lines if line.startswith("same ")]
    skipped = [line for line in lines if line.startswith("skip ")]
    assert len(same) + len(skipped) == len(list(REGRESSION.glob("*.json")))
    assert len(same) >= 22
    assert lines[-1] == f"{len(same)} of {len(same)} cases are the same on both targets"


@needs_twin
def test_generated_cases_are_the_same_on_both(tmp_path):
    ran = run("twin", "--cases", 60, "--seed", 11, "--json", "--output", tmp_path).expect(DONE)
    told = json.loads(ran.out.splitlines()[-1])
    assert told["cases"] == 60 and told["disagreements"] == 0 and told["lost"] == 0
    assert told["events"] > 3000 and told["fields"] > 20000
    assert told["failed"] > 5, "both sides of the seed reports should be among the cases"
    assert list(tmp_path.iterdir()) == []


@needs_twin
def test_a_wrong_twin_is_found_and_its_case_is_kept(tmp_path):
    planted = ["--planted", "divide_twice"]
    ran = run(
        *["twin", *planted, *CONTROLS, "--cases", 30, "--minimize-seconds", 10],
        *["--output", tmp_path],
    ).expect(DIFFERS, "DIFFER ", " on real, ", " on native")
    file, *_ = sorted(tmp_path.iterdir())
    case = json.loads(file.read_text())
    assert "real and native differ" in case["origin"]["note"]
    assert len(case["groups"]) == 1 and case.get("steps", 3) == 1, ran
    run("twin", *planted, file).expect(DIFFERS, "0 of 1 cases are the same")
    run("twin", file).expect(DONE, "1 of 1 cases are the same")


@needs_twin
@pytest.mark.parametrize("line", ["--planted nonsense --cases 1", "--cases -1", "/nowhere.json"])
def test_a_wrong_line_is_refused(line, tmp_path):
    ran = run("twin", *line.split(), cwd=tmp_path).expect(BAD_INPUT)
    assert ran.err.strip()


@needs_twin
def test_the_mixed_engine_explores_on_the_twin(tmp_path):
    ran = run("fuzz", *CONTROLS, "--cases", 40, "--seed", 5, "--output", tmp_path).expect(DONE)
    assert "cases explored on the twin" in ran.err
    explored = int(ran.err.split(" cases explored on the twin")[0].split()[-1])
    assert explored > 300
    assert ", 0 failed, " in ran.err and "0 distinct failures" in ran.err


@needs_twin
def test_what_the_twin_finds_is_confirmed_on_the_real_target(tmp_path):
    ran = run(
        *["fuzz", "--only", "torchao_moe_fp8:one_arg", "--cases", 33, "--seed", 5],
        *["--minimize-seconds", 0, "--output", tmp_path],
    ).expect(DONE)
    words = ran.err.split("signatures that were new there ")[1].split()
    assert words[1] == "confirmed" and int(words[0]) > 0
    assert ", 0 not" in ran.err


# The coverage engine needs libFuzzer's target, which needs clang. The native worker answers the
# same requests (with numbered cases), so the engine's side is tested without either.
COVERAGE = ["fuzz", "--engine", "coverage", "--native-case", NATIVE_WORKER]


@needs_twin
def test_the_coverage_engine_confirms_and_shrinks_what_the_twin_finds(tmp_path):
    line = [*COVERAGE, "--corpus", tmp_path / "corpus", "--cases", 512, "--seed", 2]
    line += ["--only", "torchao_moe_fp8:shipped", "--minimize-seconds", 5]
    ran = run(*line, "--output", tmp_path / "found", "--json").expect(DONE)
    found = [json.loads(line) for line in ran.out.splitlines()]
    signature = "torchao_moe_fp8:shipped|P1|AssertionError.when-a-parameter-is-unevenly-sharded|"
    assert signature + "empty" in {f["signature"] for f in found}
    assert ", 0 not" in ran.err and "0 cases in " in ran.err
    assert all(json.loads(open(f["file"]).read())["expect"]["verdict"] == "fail" for f in found)
    assert (tmp_path / "corpus").is_dir()


@needs_twin
def test_the_coverage_engine_stops_where_its_target_is_not_there(tmp_path):
    line = ["fuzz", "--engine", "coverage", "--corpus", tmp_path, "--output", tmp_path / "found"]
    run(*line).expect(BAD_INPUT, "native_case is not built", "tools/fuzz")
    run(*COVERAGE, "--resume", "--output", tmp_path / "found").expect(BAD_INPUT, "--resume")
    assert list(tmp_path.iterdir()) == []


@needs_twin
def test_a_twin_that_dies_again_and_again_ends_the_run(tmp_path):
    line = ["fuzz", "--engine", "coverage", "--native-case", "/bin/false", "--corpus", tmp_path]
    ran = run(*line, "--output", tmp_path / "found").expect(BAD_INPUT, "/bin/false")
    assert ran.seconds < 60
