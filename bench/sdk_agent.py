"""The official Python SDK's agent in the benchmark, written as its quickstart shows."""

import asyncio
from typing import Any
from uuid import uuid4

from acp import (
    Agent,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    run_agent,
)
from acp.interfaces import Client
from acp.schema import AgentMessageChunk, TextContentBlock
from work import CHUNK, must_be


class Worker(Agent):
    _conn: Client

    def __init__(self) -> None:
        self._sessions: dict[str, str] = {}

    def on_connect(self, conn: Client) -> None:
        self._conn = conn

    async def initialize(self, protocol_version: int, *_: Any, **__: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd: str, *_: Any, **__: Any) -> NewSessionResponse:
        session_id = uuid4().hex
        self._sessions[session_id] = cwd
        return NewSessionResponse(session_id=session_id)

    async def prompt(self, session_id: str, prompt: list[Any], **kwargs: Any) -> PromptResponse:
        text = "\n".join(block.text for block in prompt if isinstance(block, TextContentBlock))
        match text.split():
            case ["say", count]:
                for _ in range(int(count)):
                    block = TextContentBlock(type="text", text=CHUNK)
                    chunk = AgentMessageChunk(session_update="agent_message_chunk", content=block)
                    await self._conn.session_update(session_id, chunk)
            case ["read", path, count, size]:
                for _ in range(int(count)):
                    response = await self._conn.read_text_file(session_id=session_id, path=path)
                    must_be(size, response.content)
        return PromptResponse(stop_reason="end_turn")


if __name__ == "__main__":
    asyncio.run(run_agent(Worker()))  # type: ignore[abstract]
