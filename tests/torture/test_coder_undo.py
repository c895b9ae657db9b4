"""A coder killed at every system call of its edits: `make torture`."""

import shutil
from pathlib import Path

import pytest

from .coder_undo import kill_at, steps

pytestmark = pytest.mark.torture


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_killed_at_any_system_call_an_edit_can_be_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    chosen = steps(tmp_path / "dry")
    counts = kill_at(tmp_path, iter(chosen))
    print(f"{len(chosen)} kills: {dict(counts)}")
    assert counts["changed"] > 10
