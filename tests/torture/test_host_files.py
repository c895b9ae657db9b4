"""T30, T32, T34, T38 at full size: `make torture`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .host_files import (
    ATTACKS,
    fail_calls,
    kill_recovery_at_every_step,
    kill_writers,
    kill_writers_at_every_step,
    read_under_attack,
    write_under_attack,
)

pytestmark = pytest.mark.torture

CALLS = {
    "write": "ENOSPC",
    "fsync": "EIO",
    "renameat2": "EIO",
    "renameat": "EIO",
    "linkat": "EIO",
    "unlinkat": "EIO",
}


@pytest.mark.parametrize("use_openat2", [True, False], ids=["openat2", "walk"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_200_000_reads_under_four_attacks_leak_nothing(tmp_path: Path, attack: str, use_openat2: bool) -> None:
    counts = read_under_attack(tmp_path, 50_000, use_openat2=use_openat2, moves=ATTACKS[attack])
    print(f"{attack}: {dict(counts)}")
    assert counts["leaked"] == 0
    assert counts["read"] > 1000


@pytest.mark.parametrize("use_openat2", [True, False], ids=["openat2", "walk"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_20_000_writes_under_four_attacks_change_nothing_outside(
    tmp_path: Path, attack: str, use_openat2: bool
) -> None:
    counts = write_under_attack(tmp_path, 5_000, use_openat2=use_openat2, moves=ATTACKS[attack])
    print(f"{attack}: {dict(counts)}")
    assert counts["leaked"] == 0
    assert counts["written"] > 1000


def test_2_000_killed_overwrites_leave_old_or_new(tmp_path: Path) -> None:
    counts = kill_writers(tmp_path, 2_000, role="overwrite", longest=0.03)
    print(dict(counts))
    assert sum(counts.values()) == 2_000


def test_500_killed_changes_of_several_files_leave_all_old_or_all_new(tmp_path: Path) -> None:
    counts = kill_writers(tmp_path, 500, role="edit", longest=0.15)
    print(dict(counts))
    assert sum(counts.values()) == 500


@pytest.mark.parametrize("over_old", [False, True], ids=["new files", "old files"])
@pytest.mark.parametrize("role", ["overwrite", "edit"])
def test_a_kill_at_every_single_line_leaves_old_or_new(tmp_path: Path, role: str, over_old: bool) -> None:
    print(dict(kill_writers_at_every_step(tmp_path, role=role, stride=1, over_old=over_old)))


def test_a_kill_at_every_single_line_of_clearing_up_does_no_harm(tmp_path: Path) -> None:
    print(dict(kill_recovery_at_every_step(tmp_path, stride=1)))


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("role", ["overwrite", "edit"])
def test_a_failure_of_every_single_system_call_leaves_old_or_new(tmp_path: Path, role: str, call: str) -> None:
    print(dict(fail_calls(tmp_path, role=role, call=call, error=CALLS[call])))


FAR = """
import sys, time
from dragoman.host.files import Workspace
directory, state = sys.argv[1:]
with Workspace(directory, state=state) as workspace, workspace.reading(f"{directory}/f") as file:
    assert file.read(10**9, 1) == ""
"""


def test_a_line_far_beyond_a_file_of_1_gib_is_looked_for_in_5_seconds_of_the_processor(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    with open(tmp_path / "ws" / "f", "w") as file:
        for _ in range(1024):
            file.write("0123456789abcdé\n" * (1024 * 1024 // 17))
    before = os.times()
    subprocess.run([sys.executable, "-c", FAR, tmp_path / "ws", tmp_path / "state"], check=True)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    print(f"{spent:.1f} s")
    assert spent < 5
