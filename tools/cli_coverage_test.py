"""shardfuzz coverage: numbers for each file, what is never reached, and why."""

import json
import re

import pytest
from cli_support import BAD_INPUT, DONE, PACKS, REGRESSION, ROOT, needs_worker, run

CASE = REGRESSION / "ao2673-minimized-e1-w2.json"  # the short rank raises in its first forward
CONTROL = REGRESSION / "control-plain-accumulation.json"
WRAPPER = "torchao/prototype/moe_training/tensor.py"
PARAM = "torch/distributed/fsdp/_fully_shard/_fsdp_param.py"

pytestmark = needs_worker


def coverage(*arguments):
    return json.loads(run("coverage", "--json", "--workers", 1, *arguments).expect(DONE).out)


def lines(report, name):
    (file,) = [file for file in report["files"] if file["file"] == name]
    return file["lines"]["reached"], file["lines"]["total"]


@pytest.fixture(scope="module")
def failing():
    return coverage(CASE)


def test_cases_reach_what_they_use(failing):
    assert (failing["cases"], failing["failed"]) == (1, 1)
    plain = coverage(CONTROL)
    assert (plain["cases"], plain["passed"]) == (1, 1)
    assert lines(plain, WRAPPER)[0] == 0 and lines(failing, WRAPPER)[0] > 20
    assert lines(plain, PARAM)[0] > lines(failing, PARAM)[0] > 100
    assert lines(plain, PARAM)[1] == lines(failing, PARAM)[1]
    never = {gap["function"] for gap in failing["gaps"] if gap["whole_function"]}
    assert "FSDPParamGroup.post_backward" in never
    assert "FSDPParamGroup.pre_forward" not in never
    raised = {gap["function"] for gap in plain["gaps"] if gap["text"].startswith("raise ")}
    partly = {gap["function"] for gap in plain["gaps"] if not gap["whole_function"]}
    assert raised & partly


def test_lines_of_gaps_add_up(failing):
    for file in failing["files"]:
        missing = sum(gap["lines"] for gap in failing["gaps"] if gap["file"] == file["file"])
        assert missing == file["lines"]["total"] - file["lines"]["reached"], file


def test_more_cases_reach_more_and_the_same_ones_the_same(failing):
    more = coverage(CASE, "--cases", 6, "--seed", 3)
    assert more["cases"] >= 7
    for before, after in zip(failing["files"], more["files"]):
        assert after["lines"]["reached"] >= before["lines"]["reached"]
    assert lines(more, PARAM)[0] > lines(failing, PARAM)[0]
    assert coverage(CASE, "--cases", 6, "--seed", 3) == more


def test_what_a_lost_worker_has_reached_counts(tmp_path):
    case = json.loads(CASE.read_text())
    case["groups"][0]["params"][0].update(pack="segfault", hook="short")
    del case["expect"]
    file = tmp_path / "case.json"
    file.write_text(json.dumps(case))
    report = coverage(file, "--pack", PACKS / "segfault.py")
    assert (report["cases"], report["lost"]) == (1, 1)
    assert lines(report, PARAM)[0] > 0
    assert "segfault.py" in {file["file"] for file in report["files"]}


def test_markdown_goes_where_it_is_asked_for(tmp_path):
    target = tmp_path / "coverage.md"
    ran = run("coverage", CASE, "--workers", 1, "--output", target).expect(DONE)
    assert ran.out == ""
    text = target.read_text()
    assert re.search(r"^\| `torch/.*/_fsdp_param.py` \| \d+ / \d+ \([\d.]+ %\)", text, re.M)
    assert "**no reason known**" in text, "one case reaches little of what others do"
    assert re.search(r"`FSDPParam.__repr__` \| \(never called\) \| text for people only \|", text)


def test_further_modules_can_be_covered():
    report = coverage(CONTROL, "--cover", "torch.distributed.tensor._api")
    reached, total = lines(report, "torch/distributed/tensor/_api.py")
    assert 0 < reached < total


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["--cover", "no.such.module"], "nothing named no.such.module was imported"),
        (["--cover", "torch._C"], "torch._C has no Python source"),
        (["--cover", "json"], "json is imported already"),
        (["--reasons", CASE], "not shardfuzz.coverage_reasons/1"),
        (["--cases", "-1"], "--cases"),
        (["--output", "/nowhere/at/all.md"], "cannot be written"),
    ],
)
def test_a_wrong_line_is_refused(arguments, told):
    run("coverage", CASE, "--workers", 1, *arguments).expect(BAD_INPUT, told)


def test_the_report_that_is_kept_explains_everything():
    """reports/coverage.md is of these reasons, and none is missing."""
    text = (ROOT / "reports" / "coverage.md").read_text()
    assert re.search(r"\n\d+ stretches of lines, 0 without a known reason\.\n", text)
    reasons = json.loads((ROOT / "reports" / "coverage_reasons.json").read_text())["reasons"]
    used = set(re.findall(r"\| ([^|]*(?:\\\|[^|]*)*) \|\n", text))
    assert {reason["reason"] for reason in reasons} <= used
