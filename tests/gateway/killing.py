"""The gateway is killed again and again, in the middle of whatever it does; nothing anybody was told is lost."""

import asyncio
import contextlib
import os
import random
import signal
import socket
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from patience import PATIENCE

from dragoman import connect
from dragoman.errors import Error
from dragoman.foundation.directories import LOCAL_TOKEN
from dragoman.gateway.log.database import FILE
from dragoman.gateway.log.logs import records
from dragoman.gateway.log.records import PromptAccepted, PromptEnded, read_own, update_params
from dragoman.gateway.log.sqlite import SqliteEngine

from .house import Watcher

GATEWAYS = 2  # killed side by side: while one starts, another works
SESSION_CYCLES = 20  # after which there is a new session


class Nursery:
    """Starts gateways in one directory at one port, one after the other."""

    def __init__(self, process: asyncio.subprocess.Process, directory: Path, port: int) -> None:
        self._process, self._directory = process, directory
        self.url = f"ws://127.0.0.1:{port}/acp"
        self._pid = self._pidfd = -1

    async def start(self) -> None:
        """Start the next gateway, once the one before is gone."""
        assert self._process.stdin and self._process.stdout
        await self.gone()
        async with asyncio.timeout(PATIENCE):
            self._process.stdin.write(b"\n")
            self._pid = int(await self._process.stdout.readline())
            self._pidfd = os.pidfd_open(self._pid)

    def kill_agents(self) -> None:
        """Kill the processes the gateway has started, and leave itself alone."""
        for children in Path(f"/proc/{self._pid}/task").glob("*/children"):
            for pid in children.read_text().split():
                os.kill(int(pid), signal.SIGKILL)

    def kill(self, number: int = signal.SIGKILL) -> None:
        signal.pidfd_send_signal(self._pidfd, number)

    async def gone(self) -> None:
        """Wait until the gateway that was told to end has ended."""
        if self._pidfd < 0:
            return
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._pidfd, ended.set)  # a pidfd can be read once its process is gone
        try:
            async with asyncio.timeout(PATIENCE):
                await ended.wait()
        finally:
            loop.remove_reader(self._pidfd)
            self.forget()

    def forget(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {(self._directory / LOCAL_TOKEN).read_text()}"}

    def visit(self, client: Watcher) -> Any:
        return connect(self.url, client, headers=self.headers)


@asynccontextmanager
async def nursery(directory: Path, target: str = "class") -> AsyncIterator[Nursery]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = Path(__file__).with_name("nursery.py")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        str(directory),
        str(port),
        target,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    house = Nursery(process, directory, port)
    try:
        yield house
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        house.forget()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]


async def kill_in_the_middle(directory: Path, cycles: int, seed: int) -> Counter[str]:
    """Kill gateways in the middle of turns, some side by side; what a client was told it is told again each time.

    That is byte for byte and in order; every prompt has exactly one outcome, and no number is ever used twice.
    """
    shares = [len(range(number, cycles, GATEWAYS)) for number in range(GATEWAYS)]
    figures: Counter[str] = Counter()
    async with asyncio.TaskGroup() as group:
        for number, share in enumerate(shares):
            lineage = Lineage(directory / str(number), random.Random(seed + number), figures)
            group.create_task(lineage.live(share))
    return figures


class Lineage:
    """Gateways that follow one another in one directory, and the client that comes back to each."""

    def __init__(self, directory: Path, dice: random.Random, figures: Counter[str]) -> None:
        self._directory, self._dice, self._figures = directory, dice, figures
        self._session = ""
        self._received: list[bytes] = []  # what was told of the session, in order

    async def live(self, cycles: int) -> None:
        self._directory.mkdir()
        async with nursery(self._directory) as house:
            for cycle in range(cycles):
                if cycle % SESSION_CYCLES == 0:
                    self._session = ""
                await house.start()
                client = Watcher(client="the same")
                async with house.visit(client):
                    await self._meet(client, house)
                self._figures["cycles"] += 1
            await house.gone()
        prompts = await check_outcomes(self._directory)
        self._figures["prompts"] += prompts

    async def _meet(self, client: Watcher, house: Nursery) -> None:
        """Hear what was told before, ask for more, and have the gateway killed somewhere in it."""
        if self._session:
            session = await client.load_session(self._session, self._directory)
            self._figures["replayed"] += _check_replay(client.told.get(session.id, []), self._received)
            numbers = client.numbers(session.id)
            assert numbers == sorted(set(numbers))
        else:
            session = await client.new_session(self._directory)
        self._session = session.id
        before = len(client.told.get(session.id, []))
        wanted = before + self._dice.randrange(60)
        prompt = asyncio.ensure_future(_outcome(session, self._dice.choice((5, 50, 2000))))
        prompt.add_done_callback(lambda _: client.changed.set())
        await client.until(lambda: prompt.done() or len(client.told.get(session.id, [])) >= wanted)
        house.kill()
        await asyncio.sleep(0)
        client.connection.hang_up()
        is_answered = await prompt
        self._figures["answered" if is_answered else "interrupted"] += 1
        self._received = list(client.told.get(session.id, []))
        self._figures["received"] += len(self._received) - before


async def check_outcomes(directory: Path) -> int:
    """Every prompt in every log has one outcome, but for the last of a session nobody has opened since."""
    with contextlib.closing(sqlite3.connect(directory / FILE)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    engine = SqliteEngine(directory)
    prompts = 0
    try:
        for session in [id async for (id,), _ in engine.facts("session")]:
            ended: dict[str, int] = {}
            async for record in records(engine, session):
                if update_params(record.entry.frame) is not None:
                    continue
                match read_own(record.entry.frame):
                    case PromptAccepted(prompt=key):
                        assert key not in ended
                        ended[key] = 0
                    case PromptEnded(prompt=key):
                        ended[key] += 1
            assert set([*ended.values()][:-1]) <= {1}
            assert max(ended.values(), default=1) <= 1
            prompts += len(ended)
    finally:
        await engine.close()
    return prompts


async def _outcome(session: Any, count: int) -> bool:
    try:
        await session.prompt(str(count))
        return True
    except Error:
        return False


def _check_replay(replayed: list[bytes], received: list[bytes]) -> int:
    """Everything that was received is there, in order, byte for byte, with nothing between but our own prompts."""
    rest = iter(replayed)
    for frame in received:
        assert frame in rest, frame
    return len(received)
