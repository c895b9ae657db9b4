"""`make run`: the sample project, reviewed and repaired by a real agent process."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman.reviewer.samples import SAMPLE, copy_sample

from .conftest import User, reviewing

ROOT = Path(__file__).parents[2]
DEMO = [sys.executable, "-W", "error", "-m", "dragoman", "demo"]


def demo(directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command or DEMO,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={"PATH": os.environ["PATH"], "HOME": str(directory), "TMPDIR": str(directory)},
    )


def test_without_a_key_a_terminal_and_a_network_the_sample_is_reviewed_and_repaired(tmp_path: Path) -> None:
    done = demo(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no language model" in done.stdout
    assert "`shop/orders.py:19` error" in done.stdout
    assert "**Repaired 4 findings** in 3 files" in done.stdout
    for seen in ("Plan 6/6", "✓ Ruff: ", "-import os", "✓ Fix prices.json", "again: 5 findings left"):
        assert seen in done.stderr
    assert list(tmp_path.rglob("*")) == []  # nothing of it stays


def test_make_run_runs_it(tmp_path: Path) -> None:
    said = demo(tmp_path, "make", "--dry-run", "run").stdout.splitlines()
    assert said[-1].endswith("dragoman demo --screen")


def test_at_a_terminal_each_repair_is_asked_about(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    env = {**os.environ, "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "TERM": "dumb"}
    process = subprocess.Popen(DEMO, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    shown, answered = b"", 0
    try:
        while piece := os.read(ours, 65536):
            shown += piece
            if shown.count(b"Press a key:") > answered:
                answered += 1
                os.write(ours, b"n")
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(ours)
        process.wait(30)
    assert answered == 3
    assert b"Nothing was changed." in shown


async def test_the_sample_holds_what_the_documentation_says(project: Path) -> None:
    copy_sample(project)
    assert all(path.name.endswith(".txt") for path in SAMPLE.rglob("*") if path.is_file())
    async with reviewing(project, User("apply")) as reviewer:
        turn = await reviewer.say("/review")
    expected = {"F401", "F541", "F601", "E711", "E722", "B006", "S602", "todo", "secret"}
    assert expected <= turn.codes
    assert {"shell-unquoted-rm", "shell-equals-in-sh", "json-trailing-comma", "yaml-duplicate-key"} <= turn.codes


def test_nothing_a_review_needs_is_loaded_before_initialize_is_answered() -> None:
    program = "import sys; from dragoman.reviewer import Reviewer; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    loaded = set(done.stdout.split())
    assert "dragoman.reviewer.agent" in loaded
    assert not {"dragoman.reviewer.intake", "dragoman.reviewer.checks", "dragoman.host"} & loaded


@pytest.mark.parametrize("program", ["ruff", "ty"])
def test_the_linters_of_the_extra_are_here_to_be_tested_with(program: str) -> None:
    assert Path(sys.executable).with_name(program).exists()
