"""Modules in the current directory are not imported: by `python -m`, and by searches."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman.coder.search.finding import sought
from dragoman.coder.search.messages import SearchRequest

from .traps import Traps


@pytest.fixture
def traps(tmp_path: Path) -> Traps:
    traps = Traps(tmp_path)
    traps.set_modules()
    return traps


def test_python_m_imports_no_library_of_the_current_directory(traps: Traps) -> None:
    for path in traps.repository.glob("*.py"):  # what Python itself imports before anything of ours runs
        if path.stem == "dragoman" or path.stem in sys.stdlib_module_names:
            path.unlink()
    command = [sys.executable, "-m", "dragoman", "run", "--agent", "echo", "hello"]
    done = subprocess.run(command, cwd=traps.repository, capture_output=True, timeout=PATIENCE, check=True)
    assert (traps.fired, done.stdout) == ([], b"hello\n")


def test_a_search_imports_no_module_of_its_workspace(traps: Traps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(traps.repository)
    monkeypatch.setenv("PYTHONPATH", str(traps.repository))
    where = str(traps.repository)
    found = asyncio.run(sought(SearchRequest(where, where, "msgspec.py"), set))
    assert [Path(hits.path).name for hits in found.hits] == ["msgspec.py"]
    assert traps.fired == []
