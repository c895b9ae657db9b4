"""Clients that offer MCP servers of their own, and agents of both generations of MCP over ACP that use them."""

import asyncio
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

from dragoman import Agent, InvalidParams
from dragoman import schema as s
from dragoman.agent.turn import Turn
from dragoman.connection.remotes import RemoteClient
from dragoman.testing import RecordingClient

HERE = Path(__file__).parent
PEN = s.McpServerStdio(name="pen", command=sys.executable, args=[str(HERE / "pen.py")], env=[])


def scribe() -> MCPServer:
    """A server of this process, with tools that tell how far they are, and that ask the agent."""
    server: MCPServer = runpy.run_path(str(HERE / "scribe.py"))["server"]

    @server.tool()
    async def climb(context: Context) -> str:
        """Climb three steps."""
        for step in range(1, 4):
            await context.report_progress(step, 3, f"step {step}")
        return "on top"

    async def asked(context: Context) -> str:
        message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Why?"))
        params = types.CreateMessageRequestParams(messages=[message], max_tokens=10)
        request = types.CreateMessageRequest(params=params)
        answer = await context.request_context.session.send_request(request, types.CreateMessageResult)
        return str(answer.content.text)

    @server.tool()
    async def think(context: Context) -> str:
        """Ask the agent's model."""
        return await asked(context)

    @server.tool()
    async def pester(context: Context) -> str:
        """Ask it a hundred times at once, and tell how many answers there are, and of each refusal."""

        async def tried() -> str:
            try:
                return await asked(context)
            except MCPError:
                await context.report_progress(1, 1, "refused")
                return "refused"

        answers = await asyncio.gather(*(tried() for _ in range(100)))
        return f"{answers.count('Because.')} of {len(answers)}"

    return server


class Offering(RecordingClient):
    """Offers a server of its process, and one that it starts."""

    def __init__(self, *servers: object, **options: Any) -> None:
        super().__init__(form={"colour": "blue"}, **options)
        self.mcp_servers = servers or (scribe(), PEN)


class OlderOffering(Offering):
    """Knows connections only, as clients of the first generation do."""

    async def message_mcp(self, params: Any) -> Any:
        if not isinstance(params, s.ConnectionMcpRequest):
            raise InvalidParams("a connectionId is missing")
        assert self._provided
        return await self._provided._message(params)


class Second(Agent):
    """Calls `SERVER/TOOL JSON`, by requests that stand alone."""

    accepts = ("acp",)

    async def answer(self, turn: Turn) -> None:
        async with turn.session.tools() as tools:
            name, _, given = turn.text.partition(" ")
            try:
                found = await tools.call(turn, name, json.loads(given or "{}"))
            except Exception as exc:
                await turn.say(f"{type(exc).__name__}: {exc}")
            else:
                await turn.say(found.text)


class First(Agent):
    """Calls `SERVER/TOOL JSON`, over a connection for each call."""

    accepts = ("acp",)

    def __init__(self, client: RemoteClient) -> None:
        super().__init__(client)
        self.heard: list[str] = []
        self.asked: list[str] = []

    async def answer(self, turn: Turn) -> None:
        self.session_id = turn.session.id
        name, _, given = turn.text.partition(" ")
        server, _, tool = name.partition("/")
        ids = {each.name: each.server_id for each in turn.session.mcp_servers if isinstance(each, s.McpServerAcp)}
        opened = await self.client.connect_mcp(s.ConnectMcpRequest(server_id=ids[server]))
        ask = lambda method, params: self.client.message_mcp(  # noqa: E731
            s.ConnectionMcpRequest(connection_id=opened.connection_id, method=method, params=params)
        )
        await ask(
            "initialize",
            {
                "protocolVersion": "2025-06-18",
                "capabilities": {"elicitation": {}, "sampling": {}},
                "clientInfo": {"name": "first", "version": "1"},
            },
        )
        self.client.notify_mcp(
            s.ConnectionMcpNotification(connection_id=opened.connection_id, method="notifications/initialized")
        )
        wanted = {"name": tool, "arguments": json.loads(given or "{}"), "_meta": {"progressToken": "up"}}
        found = await ask("tools/call", wanted)
        await self.client.disconnect_mcp(s.DisconnectMcpRequest(connection_id=opened.connection_id))
        await turn.say("\n".join([*(block["text"] for block in found["content"]), *self.heard]))

    def mcp_notification(self, params: Any) -> None:
        self.heard.append(f"{params.method}: {params.params.get('message')}")

    async def mcp_request(self, params: s.ConnectionMcpRequest) -> Any:
        self.asked.append(params.method)
        if params.method == "sampling/createMessage":
            return {"role": "assistant", "content": {"type": "text", "text": "Because."}, "model": "m"}
        return {"action": "accept", "content": {"colour": "red"}}


async def said(session: Any, *prompts: str) -> list[str]:
    found = []
    for prompt in prompts:
        chunks = [
            e.content for e in [e async for e in session.prompt(prompt)] if isinstance(e, s.AgentMessageChunk)
        ]
        found.append("".join(chunk.text for chunk in chunks if isinstance(chunk, s.TextContent)))
    return found
