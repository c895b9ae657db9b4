"""Terminals at full size (make torture): T21, T24, T40, T41."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from dragoman.host.terminals import Sandbox

from .host_terminals import KINDS, flood, guess, kill_hosts, spawn_and_end

pytestmark = [pytest.mark.torture, pytest.mark.usefixtures("nothing_left")]
bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
MEGABYTE = 1024 * 1024
BATCH = 50  # commands at a time


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    directory = tmp_path / "workspace"
    directory.mkdir()
    if os.geteuid() == 0:
        os.chown(directory, 1000, 1000)
    return directory


async def test_nothing_outlives_a_thousand_ends(tmp_path: Path) -> None:
    for batch in range(1000 // BATCH):
        directory = tmp_path / str(batch)
        directory.mkdir()
        await spawn_and_end(directory, list(KINDS), cycles=BATCH)


async def test_nothing_outlives_a_thousand_commands_of_killed_hosts(tmp_path: Path) -> None:
    await kill_hosts(tmp_path, list(KINDS), cycles=1000 // len(KINDS))


@bubblewrap
async def test_nothing_outlives_a_thousand_sandboxes(workspace: Path) -> None:
    sandbox = Sandbox()
    for _ in range(1000 // BATCH):
        await spawn_and_end(workspace, list(KINDS), cycles=BATCH, sandbox=sandbox)
        (workspace / "pulse").unlink()
    assert list(workspace.iterdir()) == []


@bubblewrap
async def test_nothing_outlives_the_sandboxes_of_killed_hosts(workspace: Path) -> None:
    await kill_hosts(workspace, list(KINDS), cycles=100, sandboxed=True)


async def test_ten_seconds_of_output_cost_their_limit_and_slow_nobody(tmp_path: Path) -> None:
    speed, kept, memory = await flood(tmp_path, seconds=10, limit=MEGABYTE)
    print(f"\nother turns at {speed:.0%} of their speed, {kept} bytes kept, {memory} bytes of memory taken")
    assert kept == MEGABYTE
    assert memory < 8 * MEGABYTE
    assert speed > 0.8


async def test_ten_thousand_guesses_find_no_terminal_of_another_session(tmp_path: Path) -> None:
    assert len(await guess(tmp_path, guesses=10_000, sessions=100)) == 1


@bubblewrap
async def test_a_hundred_trials_of_a_sandbox_have_one_verdict() -> None:
    for _ in range(100):
        async with asyncio.timeout(60):
            await Sandbox().check()
