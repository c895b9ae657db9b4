"""Language servers as an MCP server: `dragoman mcp --lsp` gives any agent that takes MCP servers their tools.

A server starts, and a change of files is made, once the user of the MCP host allowed it.
"""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator
from typing import Any

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from ... import __version__
from ... import schema as s
from ...errors import Error, RpcError
from ...host.disk import plain_content
from ...host.files import Workspace
from ...host.files import extensions as x
from ...host.operations import FileRead, Operation
from ...host.permissions import Permissions, Rules, user_file, workspace_file
from ...host.permissions.engine import Preset
from ...host.permissions.questions import Question
from ...lsp import REQUESTS, LanguageChange, LanguageFile, LanguageRequest, LanguageServer, LanguageServers
from .answers import failure
from .questions import ANSWER_TIMEOUT, AskingWork, followed

INSTRUCTIONS = (
    "Tools of the language servers that are installed here: errors and warnings, definitions, uses, renames. Lines "
    "are counted from 1. The user is asked before a server starts and before files are changed."
)
MAX_FILE = 8 * 1024 * 1024  # bytes of a file that is read
MAX_CALLS = 50  # at once
KINDS = {kind.name: kind for kind in REQUESTS}


def _tool(kind: type[LanguageRequest]) -> types.Tool:
    (_,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    schema = {name: value for name, value in parts[kind.__name__].items() if name not in ("title", "description")}
    hints = types.ToolAnnotations(read_only_hint=not kind.changes)
    told = " ".join((kind.__doc__ or "").split())
    return types.Tool(name=kind.name, description=told, input_schema=schema, annotations=hints)


TOOLS = [_tool(kind) for kind in REQUESTS]


class LanguageTools:
    """The tools for one workspace, with the permissions of their calls."""

    def __init__(self, workspace: str, preset: Preset = "ask") -> None:
        self._servers = LanguageServers(workspace)
        self._root = self._servers.workspace
        rules = Rules.load(user_file(), workspace_file(self._root))
        self._permissions = Permissions(preset, rules, self._put, timeout=ANSWER_TIMEOUT)
        self._files = Workspace(self._root)
        self.calls: dict[str, AskingWork[str]] = {}

    async def close(self) -> None:
        """End the calls and the servers."""
        tasks = [call.task for call in self.calls.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._servers.close()
        self._files.close()

    def begin(self, name: str, arguments: dict[str, Any]) -> AskingWork[str]:
        """Start a call; raises an Error for one that cannot be made."""
        if name not in KINDS:
            raise Error(f"there is no tool {name!r}; there are: {', '.join(KINDS)}")
        if len(self.calls) >= MAX_CALLS:
            raise Error(f"{MAX_CALLS} calls run already")
        try:
            request = msgspec.convert(arguments, KINDS[name])
        except msgspec.ValidationError as exc:
            raise Error(f"the arguments do not fit {name}: {exc}") from exc
        call: AskingWork[str] = AskingWork()
        self.calls[call.state] = call
        self._permissions.open_session(call.state)
        call.begin(self._run(call, request), "language tool")
        return call

    async def _put(self, question: Question) -> str | None:
        call = self.calls.get(question.session_id)
        return await call.ask(question) if call else None

    async def _run(self, call: AskingWork[str], request: LanguageRequest) -> str:
        try:
            path = os.path.normpath(os.path.join(self._root, request.path))
            server = await self._servers.serving(path)
            if server is None:
                raise Error(f"no language server for {request.path} is installed")
            await self._allow(call, server)
            text = await self._read(call, path)
            if text is None:
                raise Error(f"{request.path} is no text file in the workspace that may be read")

            async def read(path: str) -> str | None:
                return await self._read(call, path)

            answer = await request.ask(LanguageFile(server, path, text, read, self._servers.is_ours))
            if answer.changes:
                await self._change(call, request.name, list(answer.changes))
                await server.changed({change.path: _kind(change) for change in answer.changes})
            return answer.text
        except RpcError as exc:
            raise Error(exc.message) from exc
        finally:
            self._permissions.close_session(call.state)
            self.calls.pop(call.state, None)

    async def _allow(self, call: AskingWork[str], server: LanguageServer) -> None:
        async with self._servers.asking:
            if server.is_allowed is None:
                decision = await self._permissions.decide(call.state, server.operation, workspace=self._root)
                if decision or decision.asked:
                    server.is_allowed = decision.allowed
                if not decision:
                    raise Error(f"the language server {server.name} was not allowed to start: {decision.why}")

    async def _read(self, call: AskingWork[str], path: str) -> str | None:
        """The text of a file of the workspace that nothing protects; None for any other."""
        if not self._servers.is_ours(path):
            return None
        situation = await self._permissions.situation(
            call.state, FileRead(path=os.path.realpath(path)), self._root, ()
        )
        verdict = self._permissions.judged(situation)
        if self._permissions.must_ask(situation) or (verdict and verdict.effect == "deny"):
            return None
        try:
            return (await asyncio.to_thread(plain_content, path, MAX_FILE)).decode()
        except (OSError, UnicodeDecodeError):
            return None

    async def _change(self, call: AskingWork[str], name: str, changes: list[LanguageChange]) -> None:
        """Make a change of several files: one question, and all of them or none."""
        diffs = [s.Diff(path=one.path, old_text=one.before, new_text=one.after or "") for one in changes]
        shown = s.ToolCallUpdate(
            tool_call_id=call.state, title=f"{name}: {len(changes)} files", kind="edit", content=diffs
        )
        options = [
            s.PermissionOption(option_id="allow", name="Allow once", kind="allow_once"),
            s.PermissionOption(option_id="reject", name="Reject", kind="reject_once"),
        ]
        asked = s.RequestPermissionRequest(session_id=call.state, tool_call=shown, options=options)
        response = await self._permissions.answer(asked, workspace=self._root)
        if getattr(response.outcome, "option_id", None) != "allow":
            raise Error("the change was not allowed; nothing was changed")

        async def permit(operation: Operation, diff: s.Diff | None = None) -> None:
            decision = await self._permissions.decide(
                call.state, operation, workspace=self._root, detail=diff or ""
            )
            if not decision:
                raise Error(f"the change was not allowed: {decision.why}; nothing was changed")

        edits = [_edit(change) for change in changes]
        await self._files.apply_edits(x.ApplyEditsRequest(session_id=call.state, edits=edits), permit)


def _kind(change: LanguageChange) -> int:
    return 3 if change.after is None else 1 if change.before is None else 2


def _edit(change: LanguageChange) -> x.FileEdit:
    expected = None if change.before is None else hashlib.sha256(change.before.encode()).hexdigest()
    if change.after is None:
        return x.DeleteEdit(path=change.path, expected_sha256=expected)
    is_there = change.before is not None
    return x.WriteEdit(path=change.path, content=change.after, overwrite=is_there, expected_sha256=expected)


class LanguageBridge:
    """The handlers of the MCP server."""

    def __init__(self, tools: LanguageTools) -> None:
        self._tools = tools

    def server(self) -> Server[Any]:
        """The server, to be run over any of MCP's transports."""
        return Server(
            "dragoman-lsp",
            version=__version__,
            instructions=INSTRUCTIONS,
            get_tool_input_schema={tool.name: tool.input_schema for tool in TOOLS}.get,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    async def _list_tools(self, context: object, params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=TOOLS)

    async def _call_tool(
        self, context: ServerRequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        try:
            if params.request_state:
                if (call := self._tools.calls.get(params.request_state)) is None:
                    raise Error("the call of this question is over")
                call.answered(params.input_responses or {})
            else:
                call = self._tools.begin(params.name, params.arguments or {})
            try:
                found = await followed(context, call)
            except BaseException:  # nobody waits for its end any more
                call.refuse()
                call.task.cancel()
                raise
        except Error as exc:
            return failure(exc)
        if isinstance(found, types.InputRequiredResult):
            return found
        return types.CallToolResult(content=[types.TextContent(type="text", text=found)])


@contextlib.asynccontextmanager
async def language_tools(workspace: str, preset: Preset = "ask") -> AsyncIterator[Server[Any]]:
    """An MCP server of the language servers of a workspace, which end with the block."""
    tools = LanguageTools(workspace, preset)
    try:
        yield LanguageBridge(tools).server()
    finally:
        await tools.close()
