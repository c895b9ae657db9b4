"""The MCP server `acp` in this process, and its tools."""

import asyncio
import contextlib
from collections.abc import Mapping

from msgspec.structs import replace

from .... import __version__
from .... import schema as s
from ....errors import Error
from ....foundation.documents import Json, members
from ..conversation import ClaudeConversation
from ..program.launch import ClaudeLaunch
from ..program.running import Message
from ..questions import ClaudeQuestions
from ..tools.outcome import Outcome
from ..tools.shown import ACP
from .commands import LentCommands, failed
from .files import LentFiles, ToolError
from .permissions import LentPermissions
from .schemas import SCHEMAS

NAME = "acp"
ID = "claudecode/toolUseId"
IN_PLACE_OF = {  # Claude's own tools, which these replace
    "Read": ["Read"],
    "Edit": ["Edit", "MultiEdit"],
    "Write": ["Write"],
    "Bash": ["Bash"],
    "BashOutput": ["BashOutput"],
    "KillShell": ["KillShell"],
}


def lendable(client: s.ClientCapabilities) -> list[str]:
    """The tools that this client makes possible."""
    tools = ["Read"] if client.fs.read_text_file else []
    tools += ["Edit", "Write"] if client.fs.read_text_file and client.fs.write_text_file else []
    return tools + (["Bash", "BashOutput", "KillShell"] if client.terminal else [])


def with_server(launch: ClaudeLaunch, tools: list[str]) -> ClaudeLaunch:
    """A launch in which the server replaces Claude's tools; its tools are allowed, since it asks itself."""
    allowed = [f"{ACP}{tool}" for tool in tools]
    given = launch.options.get("allowedTools")
    options = {**launch.options, "allowedTools": [*(given if isinstance(given, list) else []), *allowed]}
    own = [name for tool in tools for name in IN_PLACE_OF[tool]]
    return replace(
        launch,
        servers={**launch.servers, NAME: {"type": "sdk", "name": NAME, "alwaysLoad": True}},
        disallowed=[*launch.disallowed, *own],
        options=options,
    )


class LentServer:
    """Answers MCP messages and runs the tools."""

    def __init__(self, conversation: ClaudeConversation, questions: ClaudeQuestions, tools: list[str]) -> None:
        self._conversation, self._tools = conversation, tools
        self._permissions = LentPermissions(conversation, questions)
        self._files, self._commands = LentFiles(conversation.session), LentCommands(conversation.session)
        self._calls: dict[str, asyncio.Task[Message]] = {}  # by the ids of their requests

    async def answer(self, message: Message) -> Message:
        """Answer one MCP message; a notification gets no answer."""
        id, params = message.get("id"), members(message.get("params"))
        match message.get("method"):
            case "initialize":
                result: Message = {
                    "protocolVersion": params.get("protocolVersion"),
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": NAME, "version": __version__},
                }
            case "ping":
                result = {}
            case "tools/list":
                result = {"tools": [{"name": tool, **SCHEMAS[tool]} for tool in self._tools]}
            case "tools/call":
                result = await self._called(id, params)
            case "notifications/cancelled":
                if task := self._calls.get(str(params.get("requestId"))):
                    task.cancel()
                return {}
            case _ if id is None:
                return {}
            case method:
                return {"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": f"no method {method!r}"}}
        return {"jsonrpc": "2.0", "id": id, "result": result}

    async def close(self) -> None:
        """End all running commands and calls."""
        for task in list(self._calls.values()):
            task.cancel()
        await self._commands.close()

    def stop(self) -> None:
        """End the running calls, since their turn was cancelled."""
        for task in list(self._calls.values()):
            task.cancel()

    async def _called(self, id: Json, params: Mapping[str, Json]) -> Message:
        name, given = str(params.get("name")), members(params.get("arguments"))
        call, key = str(members(params.get("_meta")).get(ID) or id), str(id)
        self._calls[key] = task = asyncio.ensure_future(self._done(call, name, given))
        try:
            return await task
        except asyncio.CancelledError:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
            current = asyncio.current_task()
            if current and current.cancelling():
                raise
            return _result("The turn was cancelled.", error=True)
        finally:
            self._calls.pop(key, None)

    async def _done(self, call: str, name: str, given: Mapping[str, Json]) -> Message:
        """Run a tool once it is permitted; an error becomes the result for the model."""
        try:
            if name not in self._tools:
                raise ToolError(f"there is no tool {name!r}")
            await self._permissions.admit(call, name, given)
            told, outcome = await self._do(call, name, given)
        except Error as exc:
            self._conversation.translator.results[call] = failed(str(exc))
            return _result(str(exc), error=True)
        if outcome:
            self._conversation.translator.results[call] = outcome
        return _result(told, error=bool(outcome and outcome.failed))

    async def _do(self, call: str, name: str, given: Mapping[str, Json]) -> tuple[str, Outcome | None]:
        match name:
            case "Read":
                return await self._files.read(given), None
            case "Write":
                return await self._files.write(given)
            case "Edit":
                return await self._files.edit(given)
            case "Bash":
                return await self._commands.run(call, given)
            case "BashOutput":
                return await self._commands.output(given), None
        return await self._commands.kill(given), None


def _result(text: str, *, error: bool) -> Message:
    return {"content": [{"type": "text", "text": text}], **({"isError": True} if error else {})}
