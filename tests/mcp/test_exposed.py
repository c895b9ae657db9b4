"""MCP servers that an agent offers its client, directly and through a gateway."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from gateway.house import hosting
from mcp import MCPError
from patience import PATIENCE
from providing import PEN, scribe

from dragoman import Agent, Client, NotOffered, RpcError
from dragoman.agent.turn import Turn
from dragoman.client.agent_servers import MESSAGE
from dragoman.client.session import Session
from dragoman.testing import RecordingClient, pair

pytestmark = pytest.mark.usefixtures("nothing_left")


class Exposing(Agent):
    """Offers a server of its process, and one that it starts."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.mcp_servers = (scribe(), PEN)

    async def answer(self, turn: Turn) -> None:
        await turn.say("hello")


@contextlib.asynccontextmanager
async def opened(way: str, directory: Path, client: Client) -> AsyncIterator[Session]:
    """A session with the agent, on this machine or behind a gateway over WebSocket."""
    async with asyncio.timeout(PATIENCE), contextlib.AsyncExitStack() as stack:
        if way == "gateway":
            house = await stack.enter_async_context(hosting(directory, Exposing))
            await stack.enter_async_context(house.visit("ann", client))
        else:
            await stack.enter_async_context(pair(Exposing, client))
        yield await client.new_session(directory)


async def answered(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"colour": "green"})


@pytest.mark.parametrize("way", ["direct", "gateway"])
async def test_a_client_uses_servers_of_its_agent(way: str, tmp_path: Path) -> None:
    client, told = RecordingClient(), []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with opened(way, tmp_path, client) as session:
        assert client.agent_servers == ["scribe", "pen"]
        async with session.mcp("scribe", elicitation_callback=answered) as scribe_client:
            assert "climb" in {tool.name for tool in (await scribe_client.list_tools()).tools}
            assert text(await scribe_client.call_tool("greet", {"name": "Ada"})) == "Hello, Ada!"
            assert text(await scribe_client.call_tool("climb", {}, progress_callback=progress)) == "on top"
            assert text(await scribe_client.call_tool("paint", {})) == "all green"
        async with session.mcp("pen") as pen:
            assert text(await pen.call_tool("greet", {"name": "Bo"})) == "Hello, Bo!"
            assert (await session.prompt("x")).stop_reason == "end_turn"  # one and the other
    assert set(told) <= {"step 1", "step 2", "step 3"}
    if way != "gateway":
        assert told


def text(result: types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


async def test_a_server_or_a_session_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with opened("direct", tmp_path, client := RecordingClient()) as session:
        with pytest.raises(NotOffered, match="no MCP server 'notes'; it offers: scribe, pen"):
            async with session.mcp("notes"):
                raise NotImplementedError
        params = {"sessionId": session.id, "serverId": "notes", "requestId": "1", "method": "tools/list"}
        with pytest.raises(RpcError, match="unavailable"):
            await client.agent.request(MESSAGE, params)
        with pytest.raises(RpcError, match="no such session"):
            await client.agent.request(MESSAGE, {**params, "sessionId": "another", "serverId": "pen"})
        async with session.mcp("pen") as pen:
            with pytest.raises(MCPError, match="Method not found"):
                await pen.list_resources()


async def test_an_agent_without_servers_answers_no_request_to_one(tmp_path: Path) -> None:
    client = RecordingClient()
    async with pair(Plain, client):
        session = await client.new_session(tmp_path)
        assert client.agent_servers == []
        with pytest.raises(RpcError, match="Method not found"):
            await client.agent.request(
                MESSAGE, {"sessionId": session.id, "serverId": "pen", "requestId": "1", "method": "tools/list"}
            )


class Plain(Agent):
    async def answer(self, turn: Turn) -> None:
        await turn.say("hello")
