"""The promises of a host at full size (make torture)."""

from pathlib import Path

import pytest

from .host_files import ATTACKS
from .host_terminals import KINDS
from .hosting import (
    flood_beside,
    kill_lending_hosts,
    kill_writing_hosts,
    leave_commands,
    lie_about_destruction,
    read_while_swapped,
)

pytestmark = [pytest.mark.torture, pytest.mark.usefixtures("nothing_left")]
MEGABYTE = 1024 * 1024
CYCLES = 1000 // (4 * len(KINDS)) + 1  # 1,000 commands over four ways to end


@pytest.mark.parametrize("attack", ATTACKS)
async def test_200_000_reads_of_an_agent_under_four_attacks_leak_nothing(tmp_path: Path, attack: str) -> None:
    counts = await read_while_swapped(tmp_path, 50_000, ATTACKS[attack])
    print(f"{attack}: {dict(counts)}")
    assert counts["leaked"] == 0
    assert counts["read"] > 1000


async def test_five_thousand_lies_are_ten_thousand_questions(tmp_path: Path) -> None:
    assert await lie_about_destruction(tmp_path, 5_000) == (10_000, 0)


@pytest.mark.parametrize("ending", ["session", "agent", "connection"])
async def test_nothing_outlives_its_session_its_agent_or_its_connection(tmp_path: Path, ending: str) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    await leave_commands(workspace, ending, CYCLES)


async def test_nothing_outlives_a_killed_host(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    await kill_lending_hosts(workspace, CYCLES)


async def test_ten_seconds_of_output_slow_no_other_session(tmp_path: Path) -> None:
    speed, kept, memory = await flood_beside(tmp_path, seconds=10, limit=MEGABYTE)
    print(f"\nother turns at {speed:.0%} of their speed, {kept} bytes kept, {memory} bytes of memory taken")
    assert kept == MEGABYTE
    assert memory < 8 * MEGABYTE
    assert speed > 0.8


@pytest.mark.parametrize(("role", "kills", "writes"), [("overwrite", 100, 2_000), ("edit", 100, 500)])
async def test_killed_hosts_leave_everything_old_or_new(tmp_path: Path, role: str, kills: int, writes: int) -> None:
    made = await kill_writing_hosts(tmp_path, role, kills, longest=2.0)
    print(f"{made} writes, {kills} kills")
    assert made > writes
