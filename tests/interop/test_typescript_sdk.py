"""The official TypeScript SDK's agent and client on the wires it has: stdio, HTTP and WebSocket, both ways."""

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from peers.counterpart import Counterpart

from dragoman import connect
from dragoman import schema as s
from dragoman.testing import RecordingClient
from dragoman.transports.remote.client.http import dial_http
from dragoman.transports.remote.server.asgi import endpoint
from dragoman.transports.remote.server.server import listening

PEERS = Path(__file__).parent / "peers"
SDK = Path(__file__).parents[2] / "bench" / ".cache" / "typescript"
MIB = 1024 * 1024
NODE = shutil.which("node") or "node"
WIRES = ["stdio", "websocket", "http"]  # its adapter for Node knows no HTTP/2

pytestmark = pytest.mark.skipif(
    not (SDK / "ready").exists() or not shutil.which("node"),
    reason="the TypeScript SDK is not installed (scripts/typescript-sdk does, where npm is there)",
)


@asynccontextmanager
async def reached(wire: str) -> AsyncIterator[RecordingClient]:
    """Our client, connected to the SDK's agent."""
    command = [NODE, str(PEERS / "typescript_server.mjs"), str(SDK)]
    client = RecordingClient(permissions="allow", files={"/a.txt": "one\n"})
    if wire == "stdio":
        async with connect([*command, "stdio"], client):
            yield client
        return
    server = await asyncio.create_subprocess_exec(*command, "remote", stdout=asyncio.subprocess.PIPE)
    try:
        assert server.stdout is not None
        place = f"127.0.0.1:{int(await server.stdout.readline())}/acp"
        target = f"ws://{place}" if wire == "websocket" else await dial_http(f"http://{place}", version="1.1")
        async with connect(target, client):
            yield client
    finally:
        server.kill()
        await server.communicate()


async def said(session: Any, *blocks: str) -> list[str]:
    """What the agent says in one turn."""
    *updates, response = [event async for event in session.prompt([s.TextContent(text=text) for text in blocks])]
    assert response.stop_reason == "end_turn"
    return [update.content.text for update in updates if isinstance(update, s.AgentMessageChunk)]


@pytest.mark.parametrize("wire", WIRES)
async def test_our_client_has_a_conversation_with_the_sdks_agent(wire: str) -> None:
    async with reached(wire) as client:
        session = await client.new_session("/")
        assert await said(session, "count 300") == [str(number) for number in range(300)]
        assert await said(session, "ask") == ["yes"]
        assert await said(session, "read /a.txt") == ["one\n"]
        for words in ("aé€😀" * 20_000, "x" * (3 * MIB)):
            assert await said(session, "echo", words) == [words]
        prompt = session.prompt("wait")
        async for event in prompt:
            if isinstance(event, s.AgentMessageChunk):
                session.cancel()
        assert prompt.response is not None
        assert prompt.response.stop_reason == "cancelled"


@pytest.mark.parametrize("wire", WIRES)
async def test_the_sdks_client_has_a_conversation_with_our_agent(wire: str) -> None:
    agents = endpoint(Counterpart)
    async with listening(agents) as server:
        target = [sys.executable, str(PEERS / "counterpart.py")]
        if wire != "stdio":
            target = [server.url(websocket=wire == "websocket")]
        command = [NODE, str(PEERS / "typescript_client.mjs"), str(SDK), wire, *target]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        await agents.close()
    heard = json.loads(output)
    assert heard["said"] == [*map(str, range(100)), "yes", "waiting"]
    assert heard["ends"] == ["end_turn", "end_turn", "cancelled"]
    assert heard["asked"] == 1
