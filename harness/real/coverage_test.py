"""Rewriting for coverage: the exact counters, nothing else changed, and the same trace of a run."""

import importlib
import inspect
import os
import sys
import traceback
import types

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOM = 500


def load(name):
    """A module of shardfuzz_real without the package's own imports, which need the worker."""
    package = types.ModuleType("shardfuzz_real")
    package.__path__ = [os.path.join(HERE, "shardfuzz_real")]
    before = sys.modules.get("shardfuzz_real")
    sys.modules["shardfuzz_real"] = package
    try:
        return importlib.import_module("shardfuzz_real." + name)
    finally:
        if before is not None:
            sys.modules["shardfuzz_real"] = before


coverage = load("coverage")
rewrite = load("coverage_rewrite").rewrite


@pytest.fixture
def covered(monkeypatch):
    """(module, hits, Coverage) of testdata/covered_module.py."""
    hits = memoryview(bytearray(ROOM))
    made = coverage.Coverage(hits, ["covered_module"])
    monkeypatch.syspath_prepend(os.path.join(HERE, "testdata"))
    monkeypatch.setattr(sys, "meta_path", [made, *sys.meta_path])
    sys.modules.pop("covered_module", None)
    module = importlib.import_module("covered_module")
    made.begin()
    yield module, hits, made
    sys.modules.pop("covered_module")


def reached(covered, call):
    """The counters that a call reaches, as "line" or "line arm", in their order."""
    _, hits, made = covered
    hits[:] = bytes(ROOM)
    call()
    return [
        str(c.line) if c.kind == "line" else f"{c.line} {c.text}"
        for hit, (_, c) in zip(hits, made.counters)
        if hit
    ]


def all_of(covered, function):
    return [
        str(c.line) if c.kind == "line" else f"{c.line} {c.text}"
        for _, c in covered[2].counters
        if c.function == function
    ]


def line_of(covered, text):
    lines = inspect.getsource(covered[0]).splitlines()
    return lines.index(text) + 1


def numbered(first, *wanted):
    """ "+2 true" -> "<first + 2> true"."""
    words = [text.partition(" ") for text in wanted]
    return [f"{first + int(offset)}{space}{arm}" for offset, space, arm in words]


def test_all_counters_of_each_function(covered):
    def check(head, function, *wanted):
        assert all_of(covered, function) == numbered(line_of(covered, head), *wanted)

    plain = "def plain(x: Undefined = LIMIT):  # noqa: F821 - an annotation is not evaluated"
    check(plain, "plain", "3", "4", "4", "5")
    check("def branches(x):", "branches", "1", "1 true", "1 false", "2", "3", "3 true", "3 false",
          "4", "6", "7", "7 true", "7 false", "8", "9")  # fmt: skip
    check("def loops(n):", "loops", "1", "2", "2 entered", "2 empty", "3", "3 true", "3 false", "4",
          "5", "7", "8", "8 entered", "8 empty", "9", "10")  # fmt: skip
    check("def errors(kind):", "errors", "1", "4 except", "5", "6 except", "7", "2", "2 true",
          "2 false", "3", "9", "11", "12", "13", "14")  # fmt: skip
    check("def values(x, y):", "values", "1", "1 value if true", "1 value if false", "2",
          "2 right of and", "3", "3 right of or", "4", "4 comprehension", "5",
          "5 value if true", "5 value if false", "5 comprehension", "6", "6 lambda", "7"
          )  # fmt: skip
    check("def matched(x):", "matched", "1", "4 right of and", "2 case 0", "3", "4 case [a, b]",
          "5", "6 case _", "7")  # fmt: skip
    inner = "    def inner(self):"
    check(inner, "Thing.inner", "1", "4", "9")
    check(inner, "Thing.inner.<locals>.deeper", "2")
    check(inner, "Thing.inner.<locals>.Local.method", "6", "7")
    check("    def generate(self):", "Thing.generate", "1", "2")
    assert all_of(covered, "left_alone") == all_of(covered, "stub") == []


def test_what_calls_reach(covered):
    module = covered[0]

    def check(head, call, *wanted):
        assert reached(covered, call) == numbered(line_of(covered, head), *wanted)

    check("def branches(x):", lambda: module.branches(1), "1", "1 false", "3", "3 true", "4", "7",
          "7 false", "9")  # fmt: skip
    check("def loops(n):", lambda: module.loops(0), "1", "2", "2 empty", "7", "8", "8 empty", "10")
    check("def loops(n):", lambda: module.loops(1), "1", "2", "2 entered", "3", "3 false", "5", "7",
          "8", "8 empty", "10")  # fmt: skip
    check("def loops(n):", lambda: module.loops(4), "1", "2", "2 entered", "3", "3 true",
          "3 false", "4", "5", "8", "8 empty", "10")  # fmt: skip
    check("def errors(kind):", lambda: module.errors(ValueError), "1", "4 except", "5", "2",
          "2 true", "3", "11")  # fmt: skip
    check("def errors(kind):", lambda: module.errors(None), "1", "2", "2 false", "9", "11", "12",
          "13", "14")  # fmt: skip
    check("def values(x, y):", lambda: module.values(1, 0), "1", "1 value if true", "2",
          "2 right of and", "3", "4", "4 comprehension", "5", "6", "7")  # fmt: skip
    check("def values(x, y):", lambda: module.values(0, 1)[5](1), "1", "1 value if false", "2", "3",
          "3 right of or", "4", "5", "5 value if true", "5 comprehension", "6", "6 lambda", "7"
          )  # fmt: skip
    check("def matched(x):", lambda: module.matched([0, 1]), "1", "6 case _", "7")
    check("def matched(x):", lambda: module.matched([1, 2]), "1", "4 right of and",
          "4 case [a, b]", "5")  # fmt: skip


def test_the_module_does_what_it_did(covered):
    module = covered[0]
    path = os.path.join(HERE, "testdata", "covered_module.py")
    bare = types.ModuleType("bare")
    exec(compile(open(path).read(), path, "exec"), bare.__dict__)
    for one in (module, bare):
        one.LOG.clear()
    for function, calls in {
        "plain": [(), (5,)],
        "branches": [(2,), (1,), (0,), (-1,)],
        "loops": [(0,), (1,), (4,), (60,)],
        "errors": [(None,), (ValueError,)],
        "matched": [(0,), ([1, 2],), ([0, 2],), ("x",)],
        "left_alone": [(0,), (1,)],
    }.items():
        for arguments in calls:
            assert getattr(module, function)(*arguments) == getattr(bare, function)(*arguments)
    for arguments in [(0, 0), (2, 0), (0, 2), (3, 3)]:
        assert module.values(*arguments)[:5] == bare.values(*arguments)[:5]
    assert module.LOG == bare.LOG == [0, ValueError]
    assert module.__doc__ == bare.__doc__ and module.plain.__doc__ == "A docstring."
    assert module.Thing.__doc__ == "A class of its own."
    assert module.plain.__annotations__ == {"x": "Undefined"}
    deeper, local = module.Thing().inner
    assert deeper() is module.Thing and local().method() == 1
    ours = {name for name in vars(module) if name.startswith("_shardfuzz")}
    assert ours == {"_shardfuzz_hits", "_shardfuzz_mark"}
    assert {name for name in vars(module) if not name.startswith("__")} - ours == {
        name for name in vars(bare) if not name.startswith("__")
    }


def test_lines_and_source_are_the_file_s(covered):
    module = covered[0]
    head = line_of(covered, "def errors(kind):")
    with pytest.raises(KeyError) as caught:
        module.errors(KeyError)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].filename == os.path.join(HERE, "testdata", "covered_module.py")
    assert (frames[-1].lineno, frames[-1].line) == (head + 3, 'raise kind("told")')
    assert module.__file__ == frames[-1].filename
    assert inspect.getsource(module.branches).startswith("def branches(x):\n    if x > 1:\n")
    assert module.branches.__code__.co_firstlineno == line_of(covered, "def branches(x):")
    assert not os.path.exists(importlib.util.cache_from_source(module.__file__))


def test_a_statement_knows_what_leads_to_it(covered):
    head = line_of(covered, "def branches(x):")
    counters = [c for _, c in covered[2].counters]
    lines = {c.line - head: c for c in counters if c.kind == "line" and c.function == "branches"}
    leads = {
        line: (counters[c.before].line - head, c.guard) for line, c in lines.items() if line > 1
    }
    assert lines[1].before == -1 and lines[1].guard == ""
    assert leads == {
        2: (1, "if x > 1:"),
        3: (1, "else of if x > 1:"),
        4: (3, "elif x == 1:"),
        6: (3, "else of elif x == 1:"),
        7: (1, ""),
        8: (7, "if x < 0:"),
        9: (7, ""),
    }
    arms = [(c.text, c.guard) for c in counters if c.kind == "branch" and c.line == head + 7]
    assert arms == [("true", "if x < 0:"), ("false", "")]


def test_import_counts_for_nothing(covered):
    assert sum(covered[1]) == 0
    table = covered[2].table()
    assert table["files"] == [["covered_module.py", 17]]
    assert len(table["counters"]) == len(covered[2].counters)
    assert table["counters"][0][:5] == [0, "line", table["counters"][0][2], table["counters"][0][3],
                                        "plain"]  # fmt: skip


def test_what_cannot_be_covered_is_refused_with_a_way_out(monkeypatch, tmp_path):
    hits = memoryview(bytearray(ROOM))
    with pytest.raises(ImportError, match="json.decoder is imported already.*when the worker star"):
        coverage.install(hits, ["json.decoder"])
    with pytest.raises(ImportError, match="_testcapi has no Python source"):
        coverage.Coverage(hits, ["_testcapi"]).find_spec("_testcapi")
    with pytest.raises(ImportError, match="nothing named nowhere was imported"):
        coverage.Coverage(hits, ["nowhere"]).begin()
    with pytest.raises(ImportError, match="have 3 counters, with room for 2"):
        coverage.Coverage(hits[:2], []).rewritten("m", "m.py", b"def f():\n a=1\n b=2\n return a\n")


def test_numbers_go_on_from_module_to_module():
    first = rewrite("def f():\n    return 1\n", "a.py", 0)
    second = rewrite("def g():\n    return 1\n", "b.py", len(first.counters))
    namespace = {"_shardfuzz_hits": bytearray(2)}
    for made in (first, second):
        exec(compile(made.tree, "x.py", "exec"), namespace)
    namespace["g"]()
    assert namespace["_shardfuzz_hits"] == b"\0\1"
