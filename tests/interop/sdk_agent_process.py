"""A program written with the SDK, started and spoken to by our client, with both wire and stderr kept."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import sdk  # noqa: F401  no SDK, no agent
from dragoman_editor import Editor

from dragoman import Client, Session, connect
from dragoman.transports import Hear
from dragoman.transports.process import spawn

PEERS = Path(__file__).parent / "peers"


class RecordingWire:
    """A transport that keeps every frame that goes over it."""

    def __init__(self, wire: Any) -> None:
        self._wire = wire
        self.sent: list[bytes] = []
        self.heard: list[Any] = []

    def listen(self, hear: Hear, ended: Callable[[], None]) -> None:
        def keep(frames: list[Any]) -> None:
            self.heard += frames
            hear(frames)

        self._wire.listen(keep, ended)

    def send(self, frames: list[bytes]) -> None:
        self.sent += frames
        self._wire.send(frames)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wire, name)


class SdkAgentProcess:
    def __init__(self, client: Client, wire: RecordingWire, stderr: Path) -> None:
        self.client, self.wire, self._stderr = client, wire, stderr
        self._read = 0

    async def new_session(self, **workspace: Any) -> Session:
        return await self.client.new_session(self._stderr.parent, **workspace)

    def complaints(self) -> str:
        """What the agent has written to stderr since this was last asked."""
        written = self._stderr.read_text()
        news, self._read = written[self._read :], len(written)
        return news


@asynccontextmanager
async def sdk_agent(
    directory: Path, *words: str, client: Client | None = None, program: str = "sdk_agent.py"
) -> AsyncIterator[SdkAgentProcess]:
    """Start a peer; leaving the block checks that it ended well and had nothing left to complain about."""
    stderr = directory / "stderr"
    # A file outlives the process, so that its last words are read too.
    command = ["sh", "-c", 'exec "$@" 2>"$0"', str(stderr), sys.executable, str(PEERS / program), *words]
    wire = RecordingWire(await spawn(command))
    client = client or Editor()
    try:
        async with connect(wire, client):
            agent = SdkAgentProcess(client, wire, stderr)
            yield agent
    finally:
        if isinstance(client, Editor):
            await client.terminals.close()
    assert wire.status == 0
    assert agent.complaints() == ""
