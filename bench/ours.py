"""Dragoman as a contender: `connect` and one `async for` per turn."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from work import document

from dragoman import Client, Session, connect
from dragoman.schema import ReadTextFileRequest, ReadTextFileResponse

AGENT = Path(__file__).with_name("ours_agent.py")
IMPORT = "from dragoman import Agent, Client, Turn, connect, serve"


class Editor(Client):
    async def read_text_file(self, params: ReadTextFileRequest) -> ReadTextFileResponse:
        return ReadTextFileResponse(content=document(params.path))


class Link:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def new_session(self) -> Session:
        return await self._client.new_session()

    async def prompt(self, session: Session, text: str) -> int:
        """Run a turn; gives how many updates it had."""
        events = 0
        async for _ in session.prompt(text):
            events += 1
        return events - 1  # the last one is the response


@asynccontextmanager
async def start(*agent: str) -> AsyncIterator[Link]:
    """An agent's process that has answered `initialize`."""
    async with connect([sys.executable, *(agent or [str(AGENT)])], Editor()) as client:
        yield Link(client)
