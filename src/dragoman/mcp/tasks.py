"""Follows calls that a server runs as tasks to their end, in both forms of MCP tasks.

This module is loaded with the MCP library.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Literal, TypeVar

import mcp_types as types
from mcp.client.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError

from ..foundation.owning import own
from .questions import ServerQuestions

EXTENSION = "io.modelcontextprotocol/tasks"
LEAST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # seconds between two polls of a task, whatever its server proposes
LONGEST = 24 * 3600.0  # seconds that a task may take
ENDED = ("completed", "failed", "cancelled")
CANCEL = 5.0  # seconds for cancelling a task at its server
T = TypeVar("T", bound=types.Result)
Progress = Callable[[float, float | None, str | None], Awaitable[None]]
telling: ContextVar[Progress | None] = ContextVar("telling", default=None)  # the callback for a call's progress


class CallTask(types.Result):
    """A task; the pause between polls is `pollInterval` in 2025-11-25 and `pollIntervalMs` in 2026-07-28."""

    task_id: str
    status: str
    status_message: str | None = None
    poll_interval: float | None = None
    poll_interval_ms: float | None = None

    @property
    def pause(self) -> float:
        """Seconds until the next poll."""
        proposed = self.poll_interval_ms or self.poll_interval or 1000.0
        return min(max(proposed / 1000, LEAST_PAUSE), LONGEST_PAUSE)


class TaskState(CallTask):
    """A task with its requests, or its outcome, in 2026-07-28."""

    input_requests: dict[str, types.InputRequest] = {}
    result: types.CallToolResult | None = None
    error: types.ErrorData | None = None


class StartedTask(CallTask):
    """A task in place of a result, which 2026-07-28 marks."""

    result_type: Literal["task"] = "task"


class MadeTask(types.Result):
    """A task in place of a result, in 2025-11-25."""

    task: CallTask


class TaskRequest(types.Request[dict[str, object], str]):
    """A request about a task."""

    name_param = "taskId"


async def called_as_task(client: Client, tool: str, arguments: Mapping[str, object]) -> types.CallToolResult:
    """Call a tool that a server of 2025-11-25 runs only as a task."""
    session = client.session
    params: dict[str, object] = {"name": tool, "arguments": dict(arguments), "task": {}}
    request: dict[str, object] = {"method": "tools/call", "params": params}
    options: CallOptions = {}
    # The library decodes the answer as a result, which a task is not; its lower layer returns the raw answer.
    session._stamp(request, options)
    made = await session._dispatcher.send_raw_request("tools/call", params, options)
    task = MadeTask.model_validate(made, by_name=False).task
    async with _cancelling(session, task.task_id):
        looks = _Looks()
        while task.status == "working":
            await looks.pause(task)
            task = await _asked(session, "tasks/get", task.task_id, CallTask)
        # A server sends its requests while this waits.
        return await _asked(session, "tasks/result", task.task_id, types.CallToolResult)


class TaskExtension(ClientExtension):
    """Follows the tasks of servers of 2026-07-28."""

    identifier = EXTENSION

    def __init__(self, questions: ServerQuestions) -> None:
        self._questions = questions

    def claims(self) -> Sequence[ResultClaim[StartedTask]]:
        """The result that is a task."""
        return [ResultClaim(result_type="task", model=StartedTask, resolve=self._resolve)]

    async def _resolve(self, started: StartedTask, context: ClaimContext) -> types.CallToolResult:
        session, id, looks = context.session, started.task_id, _Looks()
        answered: set[str] = set()
        async with _cancelling(session, id):
            while (task := await _asked(session, "tasks/get", id, TaskState)).status in (
                "working",
                "input_required",
            ):
                new = {key: asked for key, asked in task.input_requests.items() if key not in answered}
                if new:
                    answers = {key: await self._answer(request) for key, request in new.items()}
                    answered |= new.keys()
                    await _asked(session, "tasks/update", id, types.EmptyResult, inputResponses=answers)
                else:
                    await looks.pause(task)
        if task.result is None:
            error = task.error or types.ErrorData(code=types.INTERNAL_ERROR, message=f"its task was {task.status}")
            raise MCPError.from_error_data(error)
        return task.result

    async def _answer(self, request: types.InputRequest) -> dict[str, object]:
        """The answer of the user, the agent's model or the session to a request of a task."""
        answer: types.Result | types.ErrorData
        match request:
            case types.ElicitRequest(params=params) if self._questions.can_be_asked:
                answer = await self._questions.ask(None, params)
            case types.ElicitRequest():
                answer = types.ElicitResult(action="cancel")
            case types.CreateMessageRequest(params=params):
                answer = await self._questions.sample(None, params)
            case _:
                answer = await self._questions.roots(None)
        if isinstance(answer, types.ErrorData):
            raise MCPError.from_error_data(answer)
        return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


class _Looks:
    """The polling of one task."""

    def __init__(self) -> None:
        self._count, self._told = 0, ""

    async def pause(self, task: CallTask) -> None:
        """Report new progress of the task, and wait until the next poll."""
        message = task.status_message or ""
        if (tell := telling.get()) and message != self._told:
            self._count, self._told = self._count + 1, message
            await tell(float(self._count), None, message)
        await asyncio.sleep(task.pause)


async def _asked(session: ClientSession, method: str, id: str, kind: type[T], **more: object) -> T:
    return await session.send_request(TaskRequest(method=method, params={"taskId": id, **more}), kind)


@contextlib.asynccontextmanager
async def _cancelling(session: ClientSession, id: str) -> AsyncIterator[None]:
    """Cancel the task at its server if the call ends before the task."""
    try:
        async with asyncio.timeout(LONGEST):
            yield
    except BaseException:
        own(_cancelled(session, id), "cancel of an MCP task")
        raise


async def _cancelled(session: ClientSession, id: str) -> None:
    with contextlib.suppress(Exception):  # it may have ended, or be gone with its server
        async with asyncio.timeout(CANCEL):
            await _asked(session, "tasks/cancel", id, types.Result)
