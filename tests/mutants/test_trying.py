"""The runner tells a mutation that is noticed from one that is not, and from one that fails in another way."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from . import __main__ as program
from .remembered import Remembered
from .report import report
from .table import Row
from .trying import Verdict, tried

SOURCE = "def double(x):\n    return 2 * x\n\n\ndef third():\n    return 3\n"
TESTS = """
import os, subprocess, sys
import pytest
from dragoman.a import double, third

def test_double():
    assert double(2) == 4

def test_type():
    assert double("a") == "aa"

def test_nothing():
    double(1)

def test_red():
    assert double(1) == 1

def test_in_a_process():
    program = "import dragoman.a; print(dragoman.a.third())"
    assert subprocess.check_output([sys.executable, "-I", "-c", program], text=True) == "3\\n"

@pytest.mark.parametrize("x", [0, 1])
def test_each(x):
    assert double(x) == 2 * x

@pytest.fixture
def three():
    assert third() == 3
    subprocess.Popen(["sleep", "1000"], start_new_session=True)

def test_set_up(three):
    pass

def test_skipped():
    pytest.skip("not here")
"""


def row(name: str, old: str, new: str, *tests: str, kinds: tuple[str, ...] = ("AssertionError", "Failed")) -> Row:
    return Row("core", name, "a.py", old, new, tuple(f"tests/test_a.py::{test}" for test in tests), kinds)


ROWS = {
    "noticed": row("noticed", "2 * x", "3 * x", "test_double"),
    "noticed by one parameter": row("noticed by one parameter", "2 * x", "x", "test_each"),
    "noticed by a process": row("noticed by a process", "3", "4", "test_in_a_process"),
    "noticed as an error": row("noticed as an error", "2 * x", "2 / x", "test_type", kinds=("TypeError",)),
    "survives": row("survives", "2 * x", "3 * x", "test_double", "test_nothing"),
    "another error": row("another error", "2 * x", "2 / x", "test_type"),
    "red anyway": row("red anyway", "2 * x", "3 * x", "test_red"),
    "does not import": row("does not import", "def double(x)", "def twice(x)", "test_double"),
    "no such test": row("no such test", "2 * x", "3 * x", "test_treble"),
    "the set-up fails": row("the set-up fails", "3", "4", "test_set_up"),
    "skipped": row("skipped", "3", "4", "test_skipped"),
}
FAULTS = {
    "survives": "the mutant survives",
    "another error": "fails in another way: call ['TypeError']",
    "red anyway": "fails without the mutation",
    "does not import": "does not run",
    "no such test": "there is no test",
    "the set-up fails": "fails in another way: setup",
}


def test_each_row_is_judged_by_what_its_tests_say_with_it_and_without_it(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    for name, text in {
        "src/dragoman/__init__.py": "",
        "src/dragoman/a.py": SOURCE,
        "tests/test_a.py": TESTS,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q", root], check=True)
    said: list[Verdict] = []
    verdicts = {
        verdict.row.name: verdict
        for verdict in tried(list(ROWS.values()), root, tmp_path / "copies", 1, said.append)
    }
    assert sorted(verdict.row.name for verdict in said) == sorted(ROWS)
    assert (root / "src" / "dragoman" / "a.py").read_text() == SOURCE
    for name, verdict in verdicts.items():
        assert FAULTS.get(name, "") in (verdict.fault or ""), verdict
        assert (verdict.fault is None) == (name not in FAULTS), verdict
        assert verdict.skipped == (name == "skipped")
    assert len(verdicts) == len(ROWS)


@pytest.mark.parametrize("changed", ["src/dragoman/a.py", "tests/test_a.py"])
def test_a_noticed_row_is_remembered_until_its_module_or_its_tests_change(changed: str, tmp_path: Path) -> None:
    for name in ("src/dragoman/a.py", "tests/test_a.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    noticed, other = ROWS["noticed"], row("noticed", "2 * x", "4 * x", "test_double")
    file = tmp_path / "build" / "results.json"
    Remembered(file, tmp_path).add(Verdict(noticed, None, 1.0, seconds=2.0))
    Remembered(file, tmp_path).add(Verdict(ROWS["survives"], "it survives", 1.0))
    again = Remembered(file, tmp_path)
    assert again.verdict(noticed) == Verdict(noticed, None, 1.0, seconds=2.0)
    assert [again.verdict(row) for row in (other, ROWS["survives"])] == [None, None]
    (tmp_path / changed).write_text("x = 2\n")
    assert again.verdict(noticed) is None


def test_a_report_has_the_score_of_each_package_and_the_names_of_survivors() -> None:
    told = report([Verdict(ROWS["noticed"], None, 1.0), Verdict(ROWS["survives"], "the mutant survives", 1.0)])
    assert "| core | 2 | 1 |" in told
    assert "- core: survives: the mutant survives" in told
    assert "Skipped here" not in told


def test_a_run_tells_each_verdict_reports_all_and_goes_on_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def tried(rows: list[Row], root: Path, places: Path, jobs: int, tell: Callable[[Verdict], None], limit: float):
        verdicts = [Verdict(row, None if row is rows[0] else "it survives", 1.0, seconds=2.0) for row in rows]
        asked.append([row.name for row in rows])
        for verdict in verdicts:
            tell(verdict)
        return verdicts

    chosen = [row for row in program.read() if row.package == "store"][:3]
    monkeypatch.setattr(program, "PLACE", tmp_path)
    monkeypatch.setattr(program, "tried", tried)
    monkeypatch.setattr(program, "read", lambda: chosen)
    names = [row.name for row in chosen]
    for more in ([], ["--resume"]):
        monkeypatch.setattr(sys, "argv", ["mutants", *more])
        assert program.main() == 1
    assert asked == [names, names[1:]]
    told = capsys.readouterr().out
    assert f"1/3 store: {names[0]}: noticed (2 s)" in told
    assert f"3/3 store: {names[2]}: it survives (2 s)" in told
    assert "| store | 3 | 2 |" in (tmp_path / "report.md").read_text()
