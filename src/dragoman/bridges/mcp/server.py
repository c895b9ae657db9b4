"""An MCP server that drives one agent."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from ... import __version__
from ...errors import Error
from ...host.diffs import unified
from ...host.permissions.engine import Preset
from ...host.processes import Launch
from .agent_tools import AgentTools
from .answers import TurnReports, failure, result, set_log_level
from .questions import followed
from .tasks import TaskServer, TurnTasks
from .tools import TOOLS, checked

INSTRUCTIONS = (
    "Tools to work with a coding agent. start_session opens a conversation, prompt sends a message and waits for "
    "the end of the agent's turn. What the agent wants to do is put to the user as a question."
)


class McpBridge:
    """The handlers of the MCP server."""

    def __init__(self, tools: AgentTools) -> None:
        self._tools = tools
        self._tasks = TurnTasks(tools)

    def server(self) -> TaskServer:
        """The server, to be run over any of MCP's transports."""
        server = TaskServer(
            "dragoman",
            version=__version__,
            instructions=INSTRUCTIONS,
            get_tool_input_schema={tool.name: tool.input_schema for tool in TOOLS}.get,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
        )
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_log_level)
        self._tasks.offer(server)
        return server

    async def close(self) -> None:
        """Wait for no turn any more, and end the agent."""
        await self._tasks.close()
        await self._tools.close()

    async def _list_tools(self, context: object, params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=TOOLS)

    async def _call_tool(
        self, context: ServerRequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        try:
            if params.name == "prompt":
                return await self._prompt(context, params)
            answer = await self._tools.call(params.name, checked(params))
        except Error as exc:
            return failure(exc)
        text = msgspec.json.format(msgspec.json.encode(answer)).decode()
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=answer)

    async def _prompt(
        self, context: ServerRequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if params.request_state:
            turn = self._tools.conversations.turn(params.request_state)
            turn.answered(params.input_responses or {})
        else:
            turn = await self._tools.begin(checked(params))
        turn.report = TurnReports(context, turn.conversation.session.id)
        try:
            found = await followed(context, turn)
        except BaseException:  # nobody waits for its end any more
            turn.cancel()
            raise
        finally:
            turn.report = None
        return found if isinstance(found, types.InputRequiredResult) else result(turn, found)

    async def _list_resources(self, context: object, params: object) -> types.ListResourcesResult:
        found = [
            types.Resource(uri=uri, name=change.path, mime_type="text/x-diff")
            for conversation in self._tools.conversations
            for uri, change in conversation.changes.items()
        ]
        return types.ListResourcesResult(resources=found)

    async def _read_resource(
        self, context: object, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        for conversation in self._tools.conversations:
            if change := conversation.changes.get(params.uri):
                text = types.TextResourceContents(uri=params.uri, mime_type="text/x-diff", text=unified(change))
                return types.ReadResourceResult(contents=[text])
        raise ValueError(f"there is no resource {params.uri!r}")


@contextlib.asynccontextmanager
async def bridged(agent: Launch, workspace: str, preset: Preset = "ask") -> AsyncIterator[Server[Any]]:
    """An MCP server that drives an agent; the agent ends with the block."""
    bridge = McpBridge(AgentTools(agent, workspace, preset))
    try:
        yield bridge.server()
    finally:
        await bridge.close()
