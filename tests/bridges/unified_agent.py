"""A real agent process behind the adapter, for the tests of unified messages."""

import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman.bridges.unified import (
    AdapterOptions,
    BackendAdapter,
    BackendSession,
    UnifiedMessage,
    user_message,
)

PEERS = Path(__file__).parent / "peers"
TESTY = [sys.executable, "-m", "dragoman", "agent", "testy"]


class BareAgent:
    """The agent of `peers/bare_agent.py`, and what it was told."""

    def __init__(self, directory: Path) -> None:
        self._notes = directory / "notes"
        self.command = [sys.executable, "-I", "-S", str(PEERS / "bare_agent.py"), str(self._notes)]

    @property
    def heard(self) -> list[dict[str, Any]]:
        """All messages that the agent has got."""
        return [json.loads(line) for line in self._notes.read_text().splitlines()]

    def asked(self, method: str) -> list[Any]:
        """The params of every call of a method."""
        return [message.get("params") for message in self.heard if message.get("method") == method]


@asynccontextmanager
async def connected(command: list[str], directory: Path, **options: Any) -> AsyncIterator[BackendSession]:
    session = await BackendAdapter(command).connect(
        "mine", adapter_options=AdapterOptions(cwd=str(directory), **options)
    )
    async with session:
        yield session


async def until(
    session: BackendSession, is_last: Callable[[UnifiedMessage], bool] = lambda each: each.type == "result"
) -> list[UnifiedMessage]:
    """The messages up to one, which is the last of the list."""
    found = []
    async for message in session.messages:
        found.append(message)
        if is_last(message):
            return found
    raise AssertionError(f"the messages ended before: {found}")


async def turn(session: BackendSession, prompt: str) -> list[UnifiedMessage]:
    """All messages of a turn, without those of the beginning."""
    await session.send(user_message(prompt))
    return [message for message in await until(session) if message.type != "session_init"]
