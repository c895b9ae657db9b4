"""Writers who are killed at any moment; a small share of `tests/torture/test_host_files.py`."""

import shutil
from pathlib import Path

import pytest
from torture.host_files import (
    fail_calls,
    kill_recovery_at_every_step,
    kill_writers,
    kill_writers_at_every_step,
)


def test_a_killed_overwrite_leaves_the_old_or_the_new_content(tmp_path: Path) -> None:
    counts = kill_writers(tmp_path, 50, role="overwrite", longest=0.03)
    assert sum(counts.values()) == 50


def test_a_killed_change_of_several_files_leaves_all_old_or_all_new(tmp_path: Path) -> None:
    counts = kill_writers(tmp_path, 20, role="edit", longest=0.12)
    assert sum(counts.values()) == 20


@pytest.mark.parametrize("over_old", [False, True], ids=["new files", "old files"])
@pytest.mark.parametrize(("role", "stride"), [("overwrite", 13), ("edit", 71)])
def test_no_step_is_a_bad_one_to_be_killed_at(tmp_path: Path, role: str, stride: int, over_old: bool) -> None:
    counts = kill_writers_at_every_step(tmp_path, role=role, stride=stride, over_old=over_old)
    assert counts["left something"] > 5, "there was something to clear up"


def test_clearing_up_can_be_killed_too(tmp_path: Path) -> None:
    counts = kill_recovery_at_every_step(tmp_path, stride=29)
    assert counts["left something"] > 5


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize(("role", "call", "error"), [("overwrite", "fsync", "EIO"), ("edit", "write", "ENOSPC")])
def test_a_failing_disk_leaves_everything_as_it_was(tmp_path: Path, role: str, call: str, error: str) -> None:
    counts = fail_calls(tmp_path, role=role, call=call, error=error, most=4)
    assert counts["refused"] >= 2
