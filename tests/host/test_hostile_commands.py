"""Commands that stop, kill or escape the processes that watch over them: none holds up the host or outlives it."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from torture.hostile_commands import ATTACKS, SIEGES, as_nobody, endure, run_host

from dragoman.host.terminals import Terminals, children, execution

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody adopts orphans")


@pytest.mark.parametrize("attack", [*ATTACKS, *SIEGES])
async def test_an_attack_on_keeper_and_supervisor_ends_with_its_terminal(
    attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "OVERDUE", 1.0)
    await endure(tmp_path / "attack", attack)


@pytest.mark.skipif(os.geteuid() != 0, reason="they run as an ordinary user already")
async def test_attacks_end_also_where_the_host_is_an_ordinary_user(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    await run_host(*as_nobody(), sys.executable, "-m", "torture.hostile_commands", str(tmp_path))


@pytest.mark.parametrize("victims", ["$PPID", "$PPID $(ps -o ppid= -p $PPID)"])
async def test_how_a_command_ended_is_told_although_it_has_stopped_whoever_tells(victims: str) -> None:
    async with Terminals() as terminals, asyncio.timeout(60):
        terminal = await terminals.create("s", execution(f"kill -STOP {victims}; exit 3", cwd="/"))
        status = await terminal.wait()
        assert status and status.exit_code == 3
