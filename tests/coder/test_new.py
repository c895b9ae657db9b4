"""`dragoman new agent NAME` makes a project with a test that runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE


def dragoman(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *words], cwd=cwd, capture_output=True, text=True, timeout=PATIENCE
    )


def python(*words: str, cwd: Path, typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *words],
        cwd=cwd,
        input=typed,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )


def test_a_new_agent_has_a_test_that_runs_and_an_agent_that_serves(tmp_path: Path) -> None:
    made = dragoman("new", "agent", "word-counter", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    project = tmp_path / "word-counter"
    tested = python("-m", "unittest", cwd=project)
    assert tested.returncode == 0, tested.stderr
    assert "Ran 2 tests" in tested.stderr
    greeting = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    served = python("-m", "word_counter", cwd=project, typed=json.dumps(greeting) + "\n")
    assert served.returncode == 0, served.stderr
    assert json.loads(served.stdout)["result"]["agentInfo"]["name"] == "word-counter"


def test_what_a_new_agent_consists_of_is_clean(tmp_path: Path) -> None:
    dragoman("new", "agent", "tidy", cwd=tmp_path)
    checked = python("-m", "ruff", "check", "--line-length", "116", "tidy", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("name", ["", "Upper", "1st", "a/b", "../x", "class", "dragoman", "a b", "-x"])
def test_a_name_that_cannot_be_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    refused = dragoman("new", "agent", *([name] if not name.startswith("-") else ["--", name]), cwd=tmp_path)
    assert refused.returncode == 64
    assert refused.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_what_is_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("mine")
    refused = dragoman("new", "agent", "mine", cwd=tmp_path)
    assert refused.returncode == 64
    assert "already" in refused.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["README.md"]
