"""The gateway is killed again and again, in the middle of whatever it does; nothing anybody was told is lost."""

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman import connect
from dragoman.errors import Error
from dragoman.gateway.records import Ended, Prompted, read_own, update_params
from dragoman.gateway.serving import LOCAL_TOKEN
from dragoman.gateway.sqlite import SqliteEngine

from .house import PATIENCE, Watcher


class Nursery:
    """Starts gateways in one directory at one port, one after the other."""

    def __init__(self, process: asyncio.subprocess.Process, directory: Path, port: int) -> None:
        self._process, self._directory = process, directory
        self.url = f"ws://127.0.0.1:{port}/acp"
        self.pid = 0

    async def start(self) -> None:
        assert self._process.stdin and self._process.stdout
        async with asyncio.timeout(PATIENCE):
            while self.pid and os.path.exists(f"/proc/{self.pid}"):  # noqa: ASYNC110 - it was killed a moment ago
                await asyncio.sleep(0.002)
            self._process.stdin.write(b"\n")
            self.pid = int(await self._process.stdout.readline())

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

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
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]


async def kill_in_the_middle(directory: Path, cycles: int, seed: int) -> dict[str, int]:
    """Kill a gateway in the middle of turns; each time, what a client was told is told again, byte for byte.

    Every prompt has exactly one outcome, and no number is ever used twice.
    """
    dice = random.Random(seed)
    figures = {"cycles": 0, "received": 0, "replayed": 0, "interrupted": 0, "answered": 0}
    session_id, received = "", []  # what was told, in order
    async with nursery(directory) as house:
        for cycle in range(cycles):
            await house.start()
            client = Watcher(client="the same")
            async with house.visit(client):
                if cycle % 20 == 0:
                    session, received = await client.new_session(directory), []
                    session_id = session.id
                else:
                    session = await client.load_session(session_id, directory)
                    figures["replayed"] += _check_replay(client.told.get(session_id, []), received)
                    received = list(client.told.get(session_id, []))
                    numbers = client.numbers(session_id)
                    assert numbers == sorted(set(numbers))
                before = len(received)
                prompt = asyncio.ensure_future(_outcome(session, dice.choice((5, 50, 2000))))
                wanted = dice.randrange(60)
                with contextlib.suppress(Error):
                    while not prompt.done() and len(client.told.get(session_id, [])) - before < wanted:
                        client.changed.clear()
                        changed = asyncio.ensure_future(client.changed.wait())
                        await asyncio.wait({changed, prompt}, return_when=asyncio.FIRST_COMPLETED)
                        changed.cancel()
                house.kill()
                await asyncio.sleep(0)
                client.connection.hang_up()
                figures["answered" if await prompt else "interrupted"] += 1
                received = list(client.told.get(session_id, received))
            figures["cycles"] += 1
            figures["received"] += len(received) - before
    figures["prompts"] = await _check_outcomes(directory)
    return figures


async def _check_outcomes(directory: Path) -> int:
    """Every prompt in every log has one outcome, but for the last of a session nobody has opened since."""
    engine = SqliteEngine(directory)
    prompts = 0
    try:
        for session in await engine.facts("session"):
            ended: dict[str, int] = {}
            at = 0
            while records := await engine.read(session, at):
                at = records[-1].number
                for record in records:
                    if update_params(record.entry.frame) is not None:
                        continue
                    match read_own(record.entry.frame):
                        case Prompted(prompt=key):
                            assert key not in ended
                            ended[key] = 0
                        case Ended(prompt=key):
                            ended[key] += 1
            assert [*ended.values()][:-1] == [1] * (len(ended) - 1) or not ended
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
