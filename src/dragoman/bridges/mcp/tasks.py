"""Turns as MCP tasks: the call that starts a turn is answered at once, and its host comes back for the end of it.

MCP has them in two forms.  In 2025-11-25 a host asks for a task with the call, and is asked the questions while it
waits for the result.  Since 2026-07-28 they are an extension: a host that has it is given a task, reads the
questions in its state and sends the answers.
"""

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

from ... import schema as s
from ...errors import Error
from ...foundation.owning import own
from .agent_tools import AgentTools
from .answers import MAX_TOLD, failure, result, told_of
from .driven import DrivenTurn
from .questions import PutQuestion, elicits, followed
from .tools import checked

EXTENSION = "io.modelcontextprotocol/tasks"
RELATED = "io.modelcontextprotocol/related-task"
POLL = 1000  # milliseconds between two looks of a host
KEPT = timedelta(days=1)  # that a task is kept
MAX_TASKS = 200


class UpdateTaskParams(types.GetTaskRequestParams):
    """A host's answers to the questions of a task."""

    input_responses: types.InputResponses


class TurnTask:
    """A turn as a task, and what came of it."""

    def __init__(self, turn: DrivenTurn, *, can_ask: bool) -> None:
        self.id, self.turn = turn.state, turn
        self.created = self._updated = datetime.now(UTC)
        self.result: types.CallToolResult | None = None
        self._can_ask = can_ask
        self._was_cancelled = False
        self._message = ""
        turn.report = self._heard
        self._owner = own(self._follow(), "task of an MCP host")

    @property
    def status(self) -> types.TaskStatus:
        if self.result is None:
            return "input_required" if self.turn.waiting else "working"
        return "cancelled" if self._was_cancelled else "completed"

    def cancel(self) -> None:
        """Cancel the turn."""
        if self.result is None:
            self.turn.cancel()

    async def ended(self) -> types.CallToolResult:
        """Wait for the result."""
        await asyncio.shield(self._owner)
        assert self.result
        return self.result

    async def close(self) -> None:
        """Wait no longer for the end."""
        self._owner.cancel()
        await asyncio.wait([self._owner])

    def state(self, *, older: bool) -> dict[str, object]:
        """What a host is told of it, in the names of its version."""
        ttl, poll = ("ttl", "pollInterval") if older else ("ttlMs", "pollIntervalMs")
        told = {
            "taskId": self.id,
            "status": self.status,
            "statusMessage": self.turn.waiting.question.title if self.turn.waiting else self._message,
            "createdAt": self.created.isoformat(),
            "lastUpdatedAt": self._updated.isoformat(),
            ttl: KEPT // timedelta(milliseconds=1),
            poll: POLL,
        }
        return {name: value for name, value in told.items() if value != ""}

    def details(self) -> dict[str, object]:
        """The state with the questions or the result in it, as the newer MCP has it."""
        told = self.state(older=False)
        if self.result is not None:
            return told if self._was_cancelled else {**told, "result": _plain(self.result)}
        if question := self.turn.waiting:
            request = types.ElicitRequest(params=question.form())
            return {**told, "inputRequests": {question.key: _plain(request)}}
        return told

    async def _heard(self, update: s.SessionUpdate) -> None:
        if (told := told_of(update)) and told.is_progress:
            self._message, self._updated = told.text[:MAX_TOLD], datetime.now(UTC)

    async def _follow(self) -> None:
        try:
            while isinstance(found := await self.turn.next(), PutQuestion):
                self._updated = datetime.now(UTC)
                if not self._can_ask:
                    found.settle(None)  # nobody can be asked, which means no
                await asyncio.wait([found.answer])
                if self.turn.waiting is found:
                    self.turn.waiting = None
            self._was_cancelled = found.stop_reason == "cancelled"
            self.result = result(self.turn, found)
        except Exception as exc:  # whatever it is, the host hears of it
            self.result = failure(exc)
        self._updated = datetime.now(UTC)


class TurnTasks:
    """The tasks of one server, for hosts that have tasks."""

    def __init__(self, tools: AgentTools) -> None:
        self._tools = tools
        self._tasks: dict[str, TurnTask] = {}

    def offer(self, server: Server) -> None:
        """Answer the requests that hosts make of tasks."""
        server.extensions[EXTENSION] = {}
        server.middleware.append(self._begin)
        server.add_request_handler("tasks/get", types.GetTaskRequestParams, self._get)
        server.add_request_handler("tasks/result", types.GetTaskRequestParams, self._result)
        server.add_request_handler("tasks/update", UpdateTaskParams, self._update)
        server.add_request_handler("tasks/cancel", types.GetTaskRequestParams, self._cancel)

    async def close(self) -> None:
        """Forget them all."""
        for task in self._tasks.values():
            await task.close()

    async def _begin(self, ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
        """Answer a call that starts a turn with a task, where the host has tasks; leave all else as it is."""
        if ctx.method != "tools/call" or not _wants_task(ctx):
            return await call_next(ctx)
        params = types.CallToolRequestParams.model_validate(ctx.params, by_name=False)
        if params.name != "prompt" or params.request_state:
            return await call_next(ctx)
        is_older = _is_older(ctx)
        try:
            self._make_room()
            turn = await self._tools.begin(checked(params))
        except Error as exc:
            return _plain(failure(exc)) | ({} if is_older else {"resultType": "complete"})
        task = self._tasks[turn.state] = TurnTask(turn, can_ask=elicits(ctx.session))
        return {"task": task.state(older=True)} if is_older else {"resultType": "task", **task.state(older=False)}

    async def _get(self, context: ServerRequestContext, params: types.GetTaskRequestParams) -> HandlerResult:
        task = self._task(context, params)
        return task.state(older=True) if _is_older(context) else task.details()

    async def _result(self, context: ServerRequestContext, params: types.GetTaskRequestParams) -> HandlerResult:
        """Wait for the end, and ask the host meanwhile; the newer MCP has no such request."""
        if not _is_older(context):
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", context.method)
        task = self._task(context, params)
        if task.result is None:
            with contextlib.suppress(Error):  # which the result tells
                await followed(context, task.turn)
        return {**_plain(await task.ended()), "_meta": {RELATED: {"taskId": task.id}}}

    async def _update(self, context: ServerRequestContext, params: UpdateTaskParams) -> HandlerResult:
        if _is_older(context):
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", context.method)
        self._task(context, params).turn.answered(params.input_responses)
        return {}

    async def _cancel(self, context: ServerRequestContext, params: types.GetTaskRequestParams) -> HandlerResult:
        task = self._task(context, params)
        task.cancel()
        if not _is_older(context):
            return {}
        await task.ended()
        return task.state(older=True)

    def _task(self, context: ServerRequestContext, params: types.GetTaskRequestParams) -> TurnTask:
        if not _is_older(context) and not _has_extension(context):
            needed: dict[str, object] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, f"the client has not {EXTENSION}", needed)
        if (task := self._tasks.get(params.task_id)) is None:
            raise MCPError(types.INVALID_PARAMS, "there is no such task; those that ended are kept for a day")
        return task

    def _make_room(self) -> None:
        """Forget what is too old, and of too many those that ended first."""
        ended = [task for task in self._tasks.values() if task.result is not None]
        old = datetime.now(UTC) - KEPT
        spare = len(self._tasks) + 1 - MAX_TASKS
        for number, task in enumerate(ended):
            if number < spare or task.created < old:
                del self._tasks[task.id]
        if len(self._tasks) >= MAX_TASKS:
            raise Error(f"{MAX_TASKS} tasks run already")


def _is_older(context: ServerRequestContext) -> bool:
    return context.protocol_version not in MODERN_PROTOCOL_VERSIONS


def _has_extension(context: ServerRequestContext) -> bool:
    offers = context.session.client_capabilities
    return EXTENSION in ((offers.extensions if offers else None) or {})


def _wants_task(context: ServerRequestContext) -> bool:
    if not _is_older(context):
        return _has_extension(context)
    is_open = context.protocol_version == LATEST_HANDSHAKE_VERSION and context.session.client_params is not None
    return is_open and (context.params or {}).get("task") is not None


def _plain(model: types.CallToolResult | types.ElicitRequest) -> dict[str, object]:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


class TaskServer(Server):
    """A server that says it has tasks, in the older MCP, too."""

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, object]] | None = None,
        extensions: dict[str, dict[str, object]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        """What the server has; without a version that of the handshake."""
        found = super().get_capabilities(
            notification_options, experimental_capabilities, extensions, protocol_version=protocol_version
        )
        if protocol_version not in MODERN_PROTOCOL_VERSIONS:
            calls = types.TasksToolsCapability(call=types.TasksCallCapability())
            requests = types.ServerTasksRequestsCapability(tools=calls)
            found.tasks = types.ServerTasksCapability(cancel=types.TasksCancelCapability(), requests=requests)
        return found
