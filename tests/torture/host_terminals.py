"""T21, T24, T40, T41, T45: commands that do not want to end, hosts that are killed, and output without end.

Whether a process lives is never guessed: each holds a pipe open, and the pipe ends with the last of them.  Hosts
that are to be killed are started from this file: `python -m torture.host_terminals DIRECTORY COMMAND ...`.
"""

import asyncio
import contextlib
import functools
import os
import shlex
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from dragoman import Session, connect
from dragoman.errors import RpcError
from dragoman.host.terminals import Sandbox, TerminalLimits, Terminals, execution
from dragoman.testing import Echo
from torture.by_hand import resident

PATIENCE = 20.0  # seconds; an experiment that waits longer has failed
IMPATIENT = TerminalLimits(grace=0.2, per_session=256)

# Shell commands that hold the pipe PIPE open and say so with one letter each.
KINDS = {
    "clean": "exec 9>PIPE; printf c >&9",
    "deaf": "exec 9>PIPE; trap '' TERM HUP INT; printf d >&9; while :; do sleep 100; done",
    "chain": "exec 9>PIPE; sh -c 'sh -c \"printf n >&9; sleep 1000; :\"; :'; :",
    "background": "exec 9>PIPE; sleep 1000 & printf b >&9; exit 3",
    "forking": "exec 9>PIPE; printf f >&9; while :; do (sleep 1000 &) ; sleep 0.01; done",
    "daemon": "exec 9>PIPE; setsid sh -c '(printf s >&9; sleep 1000) & exit' & wait; sleep 1000",
}


class Pulse:
    """A named pipe whose end is the death of everybody who had it open."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "pulse"
        os.mkfifo(self.path)
        self.path.chmod(0o666)

    def command(self, kind: str) -> str:
        return KINDS[kind].replace("PIPE", shlex.quote(str(self.path)))

    @contextlib.asynccontextmanager
    async def felt(self) -> AsyncIterator["Pulse"]:
        self._reader = asyncio.StreamReader()
        fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._reader), os.fdopen(fd, "rb", buffering=0)
        )
        ours = os.open(self.path, os.O_WRONLY)  # so that it does not end before it has begun
        self._let_go = functools.partial(os.close, ours)
        try:
            yield self
        finally:
            transport.close()

    async def begun(self, many: int) -> None:
        """So many have said that they live."""
        try:
            await self._reader.readexactly(many)
        finally:
            self._let_go()

    async def ended(self) -> None:
        """Nobody lives any more; whoever forks on says so no second time."""
        assert await self._reader.read() == b""


async def spawn_and_end(directory: Path, kinds: Sequence[str], cycles: int, sandbox: Sandbox | None = None) -> None:
    """Start commands of every kind, end them in every way; returns when none of their processes is left."""
    pulse = Pulse(directory)
    async with pulse.felt() as felt, Terminals(limits=IMPATIENT, sandbox=sandbox) as terminals:
        kinds = [kinds[i % len(kinds)] for i in range(cycles)]
        started = [
            await terminals.create(f"session {i % 3}", execution(pulse.command(kind), cwd=str(directory)))
            for i, kind in enumerate(kinds)
        ]
        async with asyncio.timeout(PATIENCE):
            await felt.begun(len(started))
            killed = [t.kill() for t in started[::4]] + [t.kill(force=True) for t in started[1::4]]
            released = [terminals.release(t.session_id, t.id) for t in started[2::4]]
            await asyncio.gather(*killed, *released)
            await terminals.close("session 0")
            await terminals.close()
            await felt.ended()


async def kill_hosts(directory: Path, kinds: Sequence[str], cycles: int, sandboxed: bool = False) -> None:
    """Start hosts with one command of each kind, and kill -9 each; nothing they started is left."""
    pulse = Pulse(directory)
    flags = ["--sandboxed"] if sandboxed else []
    for _ in range(cycles):
        async with pulse.felt() as felt, asyncio.timeout(PATIENCE):
            argv = [sys.executable, "-m", __name__, str(directory), *flags, *map(pulse.command, kinds)]
            host = await asyncio.create_subprocess_exec(*argv, cwd=Path(__file__).parents[1])
            try:
                await felt.begun(len(kinds))
            finally:
                host.kill()
                await host.wait()
            await felt.ended()


async def _be_killed(directory: str, *commands: str) -> None:
    sandbox = Sandbox() if commands[0] == "--sandboxed" else None
    async with Terminals(sandbox=sandbox) as terminals:
        for command in commands[1:] if sandbox else commands:
            await terminals.create("session", execution(command, cwd=directory))
        await asyncio.Event().wait()


async def flood(directory: Path, seconds: float, limit: int) -> tuple[float, int, int]:
    """Print without end; gives how fast others are meanwhile compared to silence, bytes kept, and memory taken.

    Quiet and loud spells alternate, so that whatever else the machine does hits both.
    """
    quiet = loud = 0
    async with connect(Echo) as client, Terminals() as terminals:
        session = await client.new_session()
        most = before = resident()
        operation = execution("yes", ["a line that is repeated"], cwd=str(directory))
        terminal = await terminals.create("loud", operation, output_byte_limit=limit)
        async with contextlib.aclosing(terminal.follow()) as chunks:
            async for _ in chunks:
                if terminal.output().truncated:
                    break
        for _ in range(max(int(seconds / 0.2), 1)):
            await terminal.kill("SIGCONT")
            loud += await turns(session, 0.1)
            await terminal.kill("SIGSTOP")
            quiet += await turns(session, 0.1)
            most = max(most, resident())
        return loud / quiet, len(terminal.output().output.encode()), most - before


async def turns(session: Session, seconds: float, prompt: str = "hello") -> int:
    """How many turns another session has meanwhile."""
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        await session.prompt(prompt)
        count += 1
    return count


async def guess(directory: Path, guesses: int, sessions: int) -> set[str]:
    """Ask for others' terminals and for ones that never were; gives all the different answers."""
    answers = set()
    async with Terminals(limits=TerminalLimits(per_host=sessions)) as terminals:
        operation = execution("true", cwd=str(directory))
        created = [await terminals.create(f"session {i}", operation) for i in range(sessions)]
        ids = [(terminal.session_id, terminal.id) for terminal in created]
        for i in range(guesses):
            session, id = ids[i % len(ids)]
            other = ids[(i + 1) % len(ids)][0]
            for asked in ((other, id), (session, id[:-1]), (session, ""), ("", id), (session, f"term_{i:032x}")):
                try:
                    terminals.find(*asked)
                    answers.add("found")
                except RpcError as exc:
                    answers.add(f"{exc.code} {exc.message} {exc.data}")
    return answers


if __name__ == "__main__":
    asyncio.run(_be_killed(*sys.argv[1:]))
