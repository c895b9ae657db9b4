"""Where the host can make control groups, a command that hides in every other way ends, too."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from torture.host_terminals import Pulse
from torture.hostile_commands import BEGINNING, HIDING, KILL, STAY, UP, as_nobody, endure, run_host

from dragoman.host.terminals import Terminals, children, execution
from dragoman.host.terminals.keeper.control_groups import own_group

GROUP = own_group() or ""
pytestmark = pytest.mark.skipif(not GROUP, reason="no control group of version 2 that is ours to write")


async def printed(command: str) -> str:
    async with Terminals() as terminals, asyncio.timeout(60):
        terminal = await terminals.create("s", execution(command, cwd="/"))
        await terminal.wait()
        await terminals.close("s")
        return terminal.output().output


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group for hosts that a test starts, in which they leave nothing."""
    path = Path(GROUP, f"host-{os.getpid()}")
    path.mkdir()
    yield path
    assert not [entry for entry in path.iterdir() if entry.is_dir()]
    path.rmdir()


async def run_in(group: Path, *argv: str) -> None:
    await run_host("sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group), *argv)


@pytest.mark.parametrize("attack", HIDING)
async def test_a_command_that_hides_ends_with_its_terminal(
    attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "OVERDUE", 1.0)
    await endure(tmp_path / "attack", attack)


@pytest.mark.parametrize("attack", HIDING)
async def test_a_command_that_hides_ends_although_no_later_keeper_looks_for_what_is_left(
    attack: str, group: Path, tmp_path: Path
) -> None:
    await run_in(group, sys.executable, "-m", "torture.hostile_commands", str(tmp_path), attack)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can delegate")
async def test_a_command_that_hides_ends_also_where_a_group_was_delegated_to_an_ordinary_user(
    group: Path, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    for path in (group, group / "cgroup.procs", group / "cgroup.subtree_control", group / "cgroup.threads"):
        os.chown(path, 65534, 65534)  # as systemd does
    await run_in(group, *as_nobody(), sys.executable, "-m", "torture.hostile_commands", str(tmp_path), *HIDING)


async def test_nothing_is_left_of_the_groups_of_commands_that_end_are_ended_fail_or_make_more(group: Path) -> None:
    commands = [
        "grep -q ^0::.*/dragoman- /proc/self/cgroup",
        f"cd {group}/dragoman-* && mkdir -p a/b c && echo $$ > a/b/cgroup.procs",
        f"cd {group}/dragoman-* && mkdir cold && exec sh -c "
        "'sleep 1000 & echo $! > cold/cgroup.procs; echo 1 > cold/cgroup.freeze'",
        "exec sleep 1000 &",
    ]
    program = """
import asyncio, sys
from dragoman.errors import RpcError
from dragoman.host.terminals import Terminals, execution

async def main():
    async with Terminals() as terminals:
        for command in sys.argv[1:]:
            terminal = await terminals.create("s", execution("sh", ["-c", command], cwd="/"))
            status = await terminal.wait()
            assert status.exit_code == 0, (command, terminal.output())
            await terminals.close("s")
        try:
            await terminals.create("s", execution("nothing-of-this-name", ["x"], cwd="/"))
        except RpcError:
            pass
        await terminals.create("s", execution("sleep", ["1000"], cwd="/"))

asyncio.run(main())
"""
    await run_in(group, sys.executable, "-c", program, *commands)


async def test_a_command_that_killed_everybody_ends_when_the_next_command_begins(tmp_path: Path) -> None:
    pulse, host = (
        Pulse(tmp_path),
        "import resource; host = parent(keeper); leave(); resource.setrlimit(10, (1000, 1000))",
    )
    code = f"{BEGINNING}{host}; {UP}; {KILL}host, keeper, supervisor); {STAY}"
    program = """
import asyncio, sys
from dragoman.host.terminals import Terminals, execution

async def main():
    async with Terminals() as terminals:
        operation = execution(sys.executable, ["-I", "-S", "-c", *sys.argv[1:]], cwd="/")
        await (await terminals.create("s", operation)).wait()

asyncio.run(main())
"""
    async with pulse.felt() as felt, asyncio.timeout(60):
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, code, str(pulse.path))
        await felt.begun(1)
        assert await process.wait() == -9
        assert await printed("echo next") == "next\n"
        await felt.ended()
