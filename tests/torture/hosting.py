"""The promises of a host, tried through the public client by an agent in a process of its own.

Hosts that are to be killed are started from this file: `python -m torture.hosting ROLE DIRECTORY ...`.
"""

import asyncio
import contextlib
import itertools
import random
import signal
import stat
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from dragoman import AgentExited, Session, connect
from dragoman.host import Host
from dragoman.host.files import Workspace
from dragoman.host.permissions import Rules
from dragoman.host.terminals import Sandbox, TerminalLimits

from .by_hand import resident
from .errands import COMMAND, answer, answers
from .host_files import SECRET, Yard, attacker, content, edits, leftovers, newest, whole_set
from .host_permissions import Screen, spoofed
from .host_terminals import KINDS, PATIENCE, Pulse, turns

IMPATIENT = TerminalLimits(grace=0.2, per_session=256)
BATCH = 250  # requests in one prompt


@contextlib.asynccontextmanager
async def lending(host: Host, cwd: Path) -> AsyncIterator[Session]:
    async with connect(COMMAND, host):
        yield await host.new_session(cwd)


def snapshot(top: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """All that is below a directory: what it is, which one, when it changed, what it holds."""
    found = {}
    for path in (top, *sorted(top.rglob("*"))):
        status = path.lstat()
        data = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path)] = status.st_mode, status.st_ino, status.st_mtime_ns, data
    return found


# Names that are swapped while the agent asks for them


async def read_while_swapped(top: Path, tries: int, moves: Any) -> Counter[str]:
    """How often an agent read a file, was refused, or got at a secret."""
    yard = Yard(top, use_openat2=True)
    yard.workspace.close()
    ways = ("f", "dir/f", "dir/deep/f", "dir/deep/../f", "dir/deep/../../f", "dir-link/f")
    orders = itertools.cycle([["fs/read_text_file", {"path": str(yard.ws / way)}] for way in ways])
    counts: Counter[str] = Counter()
    host = Host(preset="allow-reads", rules=Rules(), audit=False, state=top / "state")
    async with lending(host, yard.ws) as session:
        with attacker(top, moves):
            for _ in range(0, tries, BATCH):
                for said in await answers(session, list(itertools.islice(orders, min(BATCH, tries)))):
                    text = said.get("result", {}).get("content")
                    counts["refused" if text is None else "leaked" if SECRET in text else "read"] += 1
    return counts


# What an agent says about itself


async def lie_about_destruction(top: Path, count: int) -> tuple[int, int]:
    """Ask for permission under harmless names, then destroy something: the questions, and what was let through."""
    workspace = top / "ws"
    (workspace / "kept").mkdir(parents=True)
    (workspace / "kept" / "file").write_text("old")
    screen = Screen("reject_once")
    host = Host(preset="allow-reads", rules=Rules(), asker=screen, state=top / "state")
    deeds: list[list[Any]] = [
        ["fs/write_text_file", {"path": f"{workspace}/kept/file", "content": "destroyed"}],
        ["_dragoman/fs/apply_edits", {"edits": [{"type": "delete", "path": f"{workspace}/kept/file"}]}],
        ["terminal/create", {"command": "rm", "args": ["-rf", "kept"]}],
        ["terminal/create", {"command": "rm -rf kept # read_file"}],
    ]
    async with lending(host, workspace) as session:
        before = snapshot(workspace)
        let_through = 0
        for params, deed in zip(spoofed(count), itertools.cycle(deeds)):
            claim = {**msgspec.to_builtins(params), "_meta": {"approved": True, "kind": "read"}}
            del claim["sessionId"]
            deed[1]["_meta"] = {"title": params.tool_call.title, "kind": "read", "autoApprove": True}
            asked, done = await answers(session, [["session/request_permission", claim], deed])
            outcome = asked["result"]["outcome"].get("optionId", "")
            let_through += outcome.startswith("allow") or "result" in done
        assert snapshot(workspace) == before
    return len(screen.seen), let_through


# Commands that do not want to end


async def leave_commands(top: Path, ending: str, cycles: int, sandbox: Sandbox | None = None) -> None:
    """Have an agent start commands of every kind, and end the session, the agent or the connection under them."""
    for _ in range(cycles):
        pulse = Pulse(top)
        host = Host(
            preset="allow-all", rules=Rules(), limits=IMPATIENT, sandbox=sandbox, state=top.parent / "state"
        )
        async with pulse.felt() as felt, asyncio.timeout(PATIENCE):
            async with lending(host, top) as session:
                orders = [["terminal/create", {"command": pulse.command(kind)}] for kind in KINDS]
                assert all("result" in said for said in await answers(session, orders))
                await felt.begun(len(KINDS))
                if ending == "session":
                    await session.close()
                    await felt.ended()
                elif ending == "agent":
                    with contextlib.suppress(AgentExited):
                        await answer(session, "die")
                    await felt.ended()
            if ending == "connection":
                await felt.ended()
        pulse.path.unlink()


async def kill_lending_hosts(top: Path, cycles: int) -> None:
    """Kill -9 hosts whose agents have started commands of every kind; nothing of it is left."""
    pulse = Pulse(top)
    for _ in range(cycles):
        async with pulse.felt() as felt, asyncio.timeout(PATIENCE):
            host = await _started("commands", top, *map(pulse.command, KINDS))
            try:
                await felt.begun(len(KINDS))
            finally:
                host.kill()
                await host.wait()
            await felt.ended()


async def _started(role: str, *arguments: object) -> asyncio.subprocess.Process:
    argv = [sys.executable, "-m", __name__, role, *map(str, arguments)]
    return await asyncio.create_subprocess_exec(
        *argv, cwd=Path(__file__).parents[1], stdout=asyncio.subprocess.PIPE
    )


async def _run_commands(top: Path, *commands: str) -> None:
    host = Host(preset="allow-all", rules=Rules(), state=top.parent / "state")
    async with lending(host, top) as session:
        await answers(session, [["terminal/create", {"command": command}] for command in commands])
        await asyncio.Event().wait()


# Hosts that are killed while their agents write


async def kill_writing_hosts(top: Path, role: str, kills: int, longest: float, seed: int = 1) -> int:
    """Kill hosts at any moment of an agent's writing: all old or all new; gives how many writes there were."""
    (top / "ws").mkdir()
    moments, version = random.Random(seed), 0
    for _ in range(kills):
        host = await _started(role, top)
        assert host.stdout
        try:
            async with asyncio.timeout(PATIENCE):
                assert await host.stdout.readline() == b"writing\n"
            await asyncio.sleep(moments.uniform(0, longest))  # not to wait for anything: this is the moment
        finally:
            host.kill()
            told = int(((await host.stdout.read()).split() or [b"0"])[-1])
            await host.wait()
        Workspace(top / "ws", state=top / "state").close()
        after = whole_set(top / "ws")
        assert after >= max(told, version), f"version {told} was told to be there, but {after} is"
        assert not leftovers(top), leftovers(top)
        version = after
    return version


async def _write_for_ever(top: Path, role: str) -> None:
    ws = top / "ws"
    host = Host(preset="allow-all", rules=Rules(), audit=top / "audit" / "log", store=False, state=top / "state")
    async with lending(host, ws) as session:
        print("writing", flush=True)
        for version in itertools.count(newest(ws) + 1):
            if role == "overwrite":
                file = {"path": str(ws / "file"), "content": content("file", version)}
                result = await answer(session, "fs/write_text_file", **file)
            else:
                changes = msgspec.to_builtins(edits(ws, version))
                result = await answer(session, "_dragoman/fs/apply_edits", edits=changes)
            assert isinstance(result, dict), result
            print(version, flush=True)


# Output without end


async def flood_beside(top: Path, seconds: float, limit: int) -> tuple[float, int, int]:
    """Have one session print without end: how fast another is compared to silence, bytes kept, memory taken."""
    host = Host(preset="allow-all", rules=Rules(), state=top / "state")
    workspace = top / "ws"
    workspace.mkdir()
    spells = Counter[str]()
    async with lending(host, workspace) as session:
        other = await host.new_session(workspace)
        command = {"command": "yes", "args": ["a line that is repeated"], "outputByteLimit": limit}
        await answer(session, "terminal/create", **command)
        (terminal,) = host.terminals.of(session.id)
        async with contextlib.aclosing(terminal.follow()) as chunks:
            async for _ in chunks:
                if terminal.output().truncated:
                    break
        most = before = resident()
        for _ in range(max(int(seconds / 0.2), 1)):
            for spell, command_goes in (("loud", "SIGCONT"), ("quiet", "SIGSTOP")):
                await terminal.kill(command_goes)
                spells[spell] += await turns(other, 0.1, "[]")
            most = max(most, resident())
        kept = len(terminal.output().output.encode())
    return spells["loud"] / spells["quiet"], kept, most - before


def main(role: str, top: str, *rest: str) -> None:
    signal.alarm(600)  # should nobody kill us after all
    if role == "commands":
        asyncio.run(_run_commands(Path(top), *rest))
    else:
        asyncio.run(_write_for_ever(Path(top), role))


if __name__ == "__main__":
    main(*sys.argv[1:])
