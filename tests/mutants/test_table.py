"""Every row of the table applies to the tree as it is: who changes code sees at once which rows go with it."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from .table import ROOT, Row, read

ROWS = read()


def test_every_row_breaks_one_place_and_is_told_apart_by_its_name() -> None:
    problems = {f"{row.package}.toml: {row.name}": problem for row in ROWS if (problem := row.problem(ROOT))}
    assert problems == {}, "change `old` and `new` of these rows as the code has changed, or the code's promise"
    assert [name for name, count in Counter(row.name for row in ROWS).items() if count > 1] == []


def test_every_test_that_a_row_names_is_there() -> None:
    functions: dict[str, set[str]] = {}
    missing = []
    for row in ROWS:
        for test in row.tests:
            file, _, named = test.partition("::")
            if file not in functions:
                nodes = ast.walk(ast.parse((ROOT / file).read_text())) if (ROOT / file).exists() else ()
                defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
                functions[file] = {node.name for node in nodes if isinstance(node, defined)}
            name = re.split(r"\[", named, maxsplit=1)[0].split("::")[-1]
            if name not in functions[file] and not name.startswith("TestCase"):
                missing.append((row.name, test))
    assert missing == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("x = 1", "x = 2", None),
        ("y", "z", "not once"),
        ("x", "y", "2 times"),
        ("x = 1", "x = (", "no Python"),
        ("x = 1", "x = 1", "is the old text"),
    ],
)
def test_a_row_that_cannot_be_tried_says_why(old: str, new: str, problem: str | None, tmp_path: Path) -> None:
    (tmp_path / "src" / "dragoman").mkdir(parents=True)
    (tmp_path / "src" / "dragoman" / "a.py").write_text("x = 1\nprint(x)\n")
    found = Row("core", "name", "a.py", old, new, ("tests/test_a.py::test_a",)).problem(tmp_path)
    assert (found is None) if problem is None else (found is not None and problem in found)
    assert Row("core", "name", "b.py", old, new, ()).problem(tmp_path) == "there is no file b.py"
