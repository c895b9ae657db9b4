"""The official Python SDK as a contender: `spawn_agent_process` and a client that counts updates by session."""

import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, Client, spawn_agent_process
from acp.core import DEFAULT_STDIO_BUFFER_LIMIT_BYTES, ClientSideConnection
from acp.schema import ClientCapabilities, FileSystemCapabilities, ReadTextFileResponse, TextContentBlock
from work import document

AGENT = Path(__file__).with_name("sdk_agent.py")
IMPORT = "from acp import Agent, Client, run_agent, spawn_agent_process"


class Editor(Client):
    def __init__(self) -> None:
        self.updates: Counter[str] = Counter()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates[session_id] += 1

    async def read_text_file(self, session_id: str, path: str, *_: Any, **__: Any) -> ReadTextFileResponse:
        return ReadTextFileResponse(content=document(path))


class Link:
    def __init__(self, connection: ClientSideConnection, editor: Editor) -> None:
        self._connection, self._editor = connection, editor

    async def new_session(self) -> str:
        return (await self._connection.new_session(cwd=os.getcwd(), mcp_servers=[])).session_id

    async def prompt(self, session: str, text: str) -> int:
        """Run a turn; gives how many updates it had."""
        before = self._editor.updates[session]
        await self._connection.prompt(session_id=session, prompt=[TextContentBlock(type="text", text=text)])
        return self._editor.updates[session] - before


@asynccontextmanager
async def start(*agent: str) -> AsyncIterator[Link]:
    """An agent's process that has answered `initialize`."""
    editor = Editor()  # type: ignore[abstract]
    lines = {"limit": DEFAULT_STDIO_BUFFER_LIMIT_BYTES}  # its own default for agents; 64 KiB is that for clients
    command = [sys.executable, *(agent or [str(AGENT)])]
    async with spawn_agent_process(editor, *command, transport_kwargs=lines) as (connection, _):
        files = FileSystemCapabilities(read_text_file=True)
        await connection.initialize(PROTOCOL_VERSION, client_capabilities=ClientCapabilities(fs=files))
        yield Link(connection, editor)
