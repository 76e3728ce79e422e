"""The shape of the source, checked over every tracked file.

Guarantees: files and functions fit a reader's head (600 lines, 70 lines, 100 columns), the project
names no machine of its writers, parts include only what they may know, and each command and file
that README.md tells a user to type exists. Use: python -m pytest tools/tidy_test.py
"""

import ast
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100

CODE_ENDINGS = {".cc", ".h", ".cu", ".cuh", ".py", ".sh", ".cmake", ".txt", ""}
# Written by a program (lock files), or one long table or record by nature.
FOREIGN_ENDINGS = {".lock", ".json", ".jsonl", ".md", ".html", ".svg", ".xml", ".css", ".in"}

# The patterns are written so that they do not match themselves.
MACHINE_PATH = re.compile(r"(?<![\w.$}-])/(?:work|root|opt/torch|tmp/bash_jobs)/")
REGISTRY_HOST = re.compile(
    r"\b(?:(?:files\.)?(?:pypi|pythonhosted|npmjs)\.(?:org|com)"
    r"|(?:deb|archive|download|proxy|index|static|registry|repo)\.[a-z-]+\.(?:org|com|io)\b)"
)

# Who may include what (the first matching row counts); see README.md on the parts.
FREE_OF_TORCH = ("base", "case", "layout", "trace", "oracle", "minimize", "worker")
TORCH_INCLUDE = re.compile(r'#include [<"](?:torch|ATen|c10|pybind11|Python\.h)')


def tracked_files():
    """Sorted names; in a copy without git all files but hidden folders and builds."""
    if (ROOT / ".git").exists():
        listing = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z"], check=True, capture_output=True, text=True
        ).stdout
        return sorted(name for name in listing.split("\0") if name and (ROOT / name).is_file())
    names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()]
    other = re.compile(r"^(?:\.(?!ci/)|build|findings/)|__pycache__")
    return sorted(name for name in names if not other.search(name))


FILES = tracked_files()


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8", errors="replace")


def is_code(name):
    ending = pathlib.PurePath(name).suffix
    return ending in CODE_ENDINGS and ending not in FOREIGN_ENDINGS


CODE = [name for name in FILES if is_code(name)]


def complain(problems):
    assert not problems, "\n" + "\n".join(problems)


def long_files(texts):
    return [
        f"{name}: {count} lines, at most {FILE_LINES_MAX}"
        for name, text in texts
        if (count := len(text.splitlines())) > FILE_LINES_MAX
    ]


def long_lines(texts):
    return [
        f"{name}:{number}: {len(line)} columns, at most {COLUMNS_MAX}"
        for name, text in texts
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > COLUMNS_MAX
    ]


def cpp_functions(text):
    """(first line, line count) of what ends with a lone brace at the indent at which it began.

    Relies on clang-format: namespaces, types and tables end in more than the brace.
    """
    begin = {0: 1, 2: 1}
    for number, line in enumerate(text.splitlines(), 1):
        indent = len(line) - len(line.lstrip(" "))
        if indent not in begin or not line.strip() or line.lstrip().startswith(("#", "//")):
            continue
        if line.strip() == "}":
            yield begin[indent], number - begin[indent] + 1
        begin[indent] = number


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1


def long_functions(texts):
    found = []
    for name, text in texts:
        ending = pathlib.PurePath(name).suffix
        functions = []
        reported_to = 0  # of blocks in blocks only the outermost is told
        if ending in {".cc", ".h", ".cu", ".cuh"}:
            functions = cpp_functions(text)
        elif ending == ".py":
            functions = python_functions(text)
        for line, count in sorted(functions):
            if count > FUNCTION_LINES_MAX and line > reported_to:
                reported_to = line + count
                found.append(
                    f"{name}:{line}: a function of {count} lines, " f"at most {FUNCTION_LINES_MAX}"
                )
    return found


def places(pattern, texts):
    return [
        f"{name}:{number}: {match.group()}"
        for name, text in texts
        for number, line in enumerate(text.splitlines(), 1)
        if (match := pattern.search(line))
    ]


def forbidden_includes(texts):
    found = []
    for name, text in texts:
        part = name.split("/")[1] if name.startswith("harness/") else ""
        if part in FREE_OF_TORCH:
            found += places(TORCH_INCLUDE, [(name, text)])
        if part == "native":  # the rule book and the code it judges share nothing
            found += places(re.compile(r'#include "harness/layout/'), [(name, text)])
        if part == "layout":
            found += places(re.compile(r'#include "harness/(?!layout/|base/)'), [(name, text)])
    return found


def missing_commands(readme, root):
    """Paths that the README's code blocks and inline code name and that are not there."""
    code = "\n".join(re.findall(r"^```.*?^```|`[^`\n]+`", readme, re.S | re.M))
    missing = []
    for path in sorted(
        set(re.findall(r"(?<![\w/.-])(?:tools|repro_cases|kernels|\.ci)/[\w./-]+", code))
    ):
        target = root / path.rstrip("./")
        if not target.exists():
            missing.append(f"README.md: {path} does not exist")
        elif (
            path.startswith(("tools/", ".ci/"))
            and target.is_file()
            and not target.suffix
            and not os.access(target, os.X_OK)
        ):
            missing.append(f"README.md: {path} cannot be run")
    return missing


def test_files_are_short():
    complain(long_files((name, text_of(name)) for name in CODE))


def test_lines_are_short():
    complain(long_lines((name, text_of(name)) for name in CODE))


def test_functions_fit_a_screen():
    complain(long_functions((name, text_of(name)) for name in CODE))


def test_no_machine_of_the_writers_is_named():
    complain(places(MACHINE_PATH, ((name, text_of(name)) for name in FILES)))


def test_no_package_registry_is_named():
    complain(places(REGISTRY_HOST, ((name, text_of(name)) for name in FILES)))


def test_parts_include_what_they_may_know():
    complain(forbidden_includes((name, text_of(name)) for name in CODE))


def test_readme_names_what_exists():
    if not (ROOT / "README.md").exists():
        pytest.skip("no README.md yet")
    complain(missing_commands(text_of("README.md"), ROOT))


# The checks above must be able to fail.


def test_limits_are_seen():
    at_most, over = "x\n" * FILE_LINES_MAX, "x\n" * (FILE_LINES_MAX + 1)
    assert long_files([("a.cc", at_most), ("b.cc", over)]) == ["b.cc: 601 lines, at most 600"]
    assert long_lines([("a.cc", "y" * 100 + "\n" + "y" * 101)]) == [
        "a.cc:2: 101 columns, at most 100"
    ]


@pytest.mark.parametrize("indent", ["", "  "])
def test_long_cpp_functions_are_seen(indent):
    def function(line_count):
        body = (indent + "  go();\n") * (line_count - 3)
        return f"int x;\n\n{indent}void f(int a,\n{indent}       int b) {{\n{body}{indent}}}\n"

    assert long_functions([("a.cc", function(70))]) == []
    assert long_functions([("a.cc", function(71))]) == [
        "a.cc:3: a function of 71 lines, at most 70"
    ]


def test_a_long_table_or_namespace_is_no_function():
    rows = "  1,\n" * 100
    table = "constexpr int kTable[] = {\n" + rows + "};\n"
    assert long_functions([("a.cc", "namespace a {\n" + table + "}  // namespace a\n")]) == []


def test_long_python_functions_are_seen():
    text = "def f():\n" + "    go()\n" * 70
    assert long_functions([("a.py", text)]) == ["a.py:1: a function of 71 lines, at most 70"]


def test_machine_paths_and_hosts_are_seen():
    path = "/".join(["", "root", "x"])
    host = ".".join(["pypi", "org"])
    assert places(MACHINE_PATH, [("a", f"cd {path}\nframe{path}")]) == [f"a:1: {path[:-1]}"]
    assert places(REGISTRY_HOST, [("a", f"b\nhttps://{host}/x")]) == [f"a:2: {host}"]


def test_forbidden_includes_are_seen():
    assert forbidden_includes(
        [
            ("harness/oracle/a.cc", "#include <torch/torch.h>"),
            ("harness/real/a.cc", "#include <torch/torch.h>"),
            ("harness/native/a.cc", '#include "harness/layout/layout.h"'),
            (
                "harness/layout/a.cc",
                '#include "harness/base/check.h"\n#include "harness/case/case.h"',
            ),
        ]
    ) == [
        "harness/oracle/a.cc:1: #include <torch",
        'harness/native/a.cc:1: #include "harness/layout/',
        'harness/layout/a.cc:2: #include "harness/',
    ]


def test_missing_readme_commands_are_seen(tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "fuzz").write_text("")
    readme = "tools/unquoted\n```sh\ntools/fuzz --seed 1\n```\nand `tools/gone x`."
    assert missing_commands(readme, tmp_path) == [
        "README.md: tools/fuzz cannot be run",
        "README.md: tools/gone does not exist",
    ]
