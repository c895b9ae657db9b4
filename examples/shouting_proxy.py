"""A proxy that changes what an agent says on its way to the client; everything else passes as bytes."""

import asyncio
import sys
from pathlib import Path

from dragoman import Proxy, compose, connect
from dragoman.schema import AgentMessageChunk, PromptResponse, SessionNotification, TextContent

AGENT = [sys.executable, str(Path(__file__).with_name("echo_agent.py"))]


class Shouting(Proxy):
    def update(self, params: SessionNotification) -> None:
        match params.update:
            case AgentMessageChunk(content=TextContent(text=text)):
                loud = AgentMessageChunk(content=TextContent(text=text.upper()))
                params = SessionNotification(session_id=params.session_id, update=loud)
        super().update(params)


async def main() -> None:
    async with connect(compose(Shouting, AGENT)) as client:
        session = await client.new_session()
        async for event in session.prompt("hello"):
            match event:
                case AgentMessageChunk(content=TextContent(text=text)):
                    print(text)
                case PromptResponse(stop_reason=reason):
                    print(reason)


asyncio.run(main())
