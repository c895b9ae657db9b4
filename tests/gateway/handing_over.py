"""Sessions that stream while the process of their gateway is replaced; `tests/torture` does so with many."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from patience import PATIENCE

from dragoman import connect
from dragoman.gateway.attachment import attached

from .house import Watcher

AGENT = """
import asyncio
from dragoman import Agent, serve

class Streaming(Agent):
    async def answer(self, turn):
        for word in turn.prompt[-1].text.split():  # behind what was said before, where the agent is a new one
            await turn.say(word + " ")
            await asyncio.sleep(0.01)

serve(Streaming)
"""
WORDS = 40  # that each prompt streams


def words_of(prompt: int) -> list[str]:
    return [f"{prompt}.{number}" for number in range(WORDS)]


def said(frames: list[bytes]) -> list[str]:
    """The words of an agent, as a client was told them."""
    updates = [msgspec.json.decode(frame)["params"]["update"] for frame in frames]
    chunks = [update for update in updates if update["sessionUpdate"] == "agent_message_chunk"]
    return "".join(chunk["content"]["text"] for chunk in chunks).split()


class Street:
    """A gateway's processes, one after the other, and what its clients were told."""

    def __init__(self, directory: Path) -> None:
        self.state, self.work = directory / "state", directory / "work"
        self.work.mkdir()
        (directory / "streaming.py").write_text(AGENT)
        self.agent = f"streaming={sys.executable} {directory / 'streaming.py'}"
        self.url = ""
        self.program = [sys.executable, "-m", "dragoman"]
        self.processes: list[asyncio.subprocess.Process] = []
        self.is_over = False
        self._answered = asyncio.Event()
        self.prompts = 0  # answered
        self.refused = 0  # connections

    async def start(self, *options: str) -> asyncio.subprocess.Process:
        listen = urlsplit(self.url).netloc if self.url else "127.0.0.1:0"
        with (self.state.parent / f"log-{len(self.processes)}").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(*self.program, "serve", "--agent", self.agent, "--state", str(self.state)),
                *("--listen", listen, "--workspace", str(self.work), "--limit", "connections_each=1000"),
                *("--max-sessions", "10000", *options),
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.processes.append(process)
        assert process.stdout
        async with asyncio.timeout(PATIENCE):
            url = (await process.stdout.readline()).decode().strip()
        assert url, (self.state.parent / f"log-{len(self.processes) - 1}").read_text()
        self.url = url
        return process

    async def replace(self) -> None:
        """Have another process take over, and wait until the one before has ended."""
        before = self.processes[-1]
        await self.start("--take-over")
        async with asyncio.timeout(PATIENCE):
            assert await before.wait() == 0

    async def stream(self, sessions: int) -> None:
        """Prompt sessions of one client again and again until it is over, and check what came of each prompt."""
        headers = {"Authorization": f"Bearer {(self.state / 'local.token').read_text()}"}
        watcher = Watcher()
        async with connect(attached(self.url, headers=headers), watcher):
            opened = [await watcher.new_session(self.work) for _ in range(sessions)]
            counts = await asyncio.gather(*(self._prompt(session) for session in opened))
            for session, count in zip(opened, counts, strict=True):
                wanted = [word for number in range(1, count + 1) for word in words_of(number)]
                heard = said(watcher.told[session.id])
                at = next((at for at, (a, b) in enumerate(zip(heard, wanted, strict=False)) if a != b), -1)
                # Nothing is lost, doubled or out of order.
                assert heard == wanted, (session.id, len(heard), len(wanted), heard[at - 3 : at + 5], wanted[at])

    async def _prompt(self, session: Any) -> int:
        """Prompt a session again and again; gives how often."""
        count = 0
        while not count or not self.is_over:
            count += 1
            assert (await session.prompt(" ".join(words_of(count)))).stop_reason == "end_turn"
            self.prompts += 1
            self._answered.set()
        return count

    async def answered(self, more: int) -> None:
        """Wait until so many more prompts have their answers."""
        wanted = self.prompts + more
        while self.prompts < wanted:
            self._answered.clear()
            await self._answered.wait()

    async def knock(self) -> None:
        """Connect again and again; a connection that is refused, or not taken, is counted."""
        address = urlsplit(self.url)

        def dial() -> None:
            with socket.create_connection((str(address.hostname), address.port or 0), PATIENCE):
                time.sleep(0.001)

        while not self.is_over:
            try:
                await asyncio.to_thread(dial)
            except (ConnectionRefusedError, TimeoutError):
                self.refused += 1


@asynccontextmanager
async def street(directory: Path) -> AsyncIterator[Street]:
    found = Street(directory)
    try:
        yield found
    finally:
        found.is_over = True
        for process in found.processes:
            if process.returncode is None:
                process.terminate()
        for process in found.processes:
            async with asyncio.timeout(PATIENCE):
                await process.wait()


async def replaced_under_load(directory: Path, clients: int, sessions: int, times: int) -> Street:
    """Replace the process of a gateway while each client has sessions that stream."""
    async with street(directory) as found:
        await found.start()
        async with asyncio.TaskGroup() as group:
            knocking = group.create_task(found.knock())
            for _ in range(clients):
                group.create_task(found.stream(sessions))
            for _ in range(times):
                await found.answered(clients * sessions)
                await found.replace()
            await found.answered(clients * sessions)
            found.is_over = True
        await knocking
    return found
