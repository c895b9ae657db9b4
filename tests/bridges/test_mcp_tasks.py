"""Turns as MCP tasks, in both forms of them, and updates as log messages."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp import MCPError
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from patience import PATIENCE

from .test_mcp import WAYS, User, call, driven
from .test_mcp_inspector import FOLDER, NODE, needs_inspector

NEWER = ("stdio", "auto")
SCRIPT = Path(__file__).with_name("older_tasks.mjs")
SDK = FOLDER / "node_modules" / "@modelcontextprotocol" / "sdk" / "dist" / "esm"
EXTENSION = "io.modelcontextprotocol/tasks"


class Started(types.Result):
    """A task in the place of a result."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    ttl_ms: int


class State(types.Result):
    task_id: str
    status: str
    status_message: str = ""
    input_requests: dict[str, types.ElicitRequest] = {}
    result: types.CallToolResult | None = None


class Asked(types.Request[dict[str, Any], str]):
    """A request that the library has no type for."""


class Tasks(ClientExtension):
    """The host's half of the extension: looks until the task is over, and answers as the user does."""

    identifier = EXTENSION

    def __init__(self, user: User | None = None) -> None:
        self.user = user
        self.states: list[State] = []
        self.started = asyncio.Event()
        self.task_id = ""

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Started, resolve=self.resolve)]

    async def resolve(self, started: Started, context: ClaimContext) -> types.CallToolResult:
        self.task_id = started.task_id
        self.started.set()
        answered: set[str] = set()
        while True:
            state = await asked(context.session, "tasks/get", State, taskId=started.task_id)
            self.states.append(state)
            if state.status in ("completed", "cancelled"):
                return state.result or types.CallToolResult(
                    content=[], structured_content={"stopReason": "cancelled"}
                )
            for key in state.input_requests.keys() - answered:
                answer = await self.user(None, state.input_requests[key].params) if self.user else None
                words = answer.model_dump(by_alias=True, exclude_none=True) if answer else {"action": "cancel"}
                await asked(
                    context.session,
                    "tasks/update",
                    types.EmptyResult,
                    taskId=started.task_id,
                    inputResponses={key: words},
                )
                answered.add(key)


async def asked(session: Any, method: str, kind: type[Any], **params: Any) -> Any:
    return await session.send_request(Asked(method=method, params=params), kind)


async def test_a_long_turn_is_a_task_whose_questions_are_answered_between_two_looks(tmp_path: Path) -> None:
    user = User()
    tasks = Tasks(user)
    file = tmp_path / "work" / "new.txt"
    async with driven(tmp_path, NEWER, user, extensions=[tasks]) as client:
        session = (await call(client, "start_session"))["sessionId"]
        done = await call(client, "prompt", sessionId=session, text=f"write {file} words")
        assert done["stopReason"] == "end_turn" and file.read_text() == "words"
        user.decision = None
        refused = await client.call_tool("prompt", {"sessionId": session, "text": f"write {file} others"})
        assert refused.is_error and "not permitted" in refused.content[0].text
    assert file.read_text() == "words" and len(user.asked) == 2
    asking = [state for state in tasks.states if state.status == "input_required"]
    assert asking and all(str(file) in str(state.input_requests) for state in asking)


async def test_a_task_of_a_host_that_cannot_ask_its_user_permits_nothing(tmp_path: Path) -> None:
    file = tmp_path / "work" / "new.txt"
    async with driven(tmp_path, NEWER, extensions=[Tasks()]) as client:
        refused = await client.call_tool("prompt", {"text": f"write {file} words"})
        assert refused.is_error and "not permitted" in refused.content[0].text
    assert not file.exists()


async def test_an_answer_to_a_question_that_waits_no_more_answers_no_other(tmp_path: Path) -> None:
    user = User("never")
    tasks = Tasks(user)
    async with driven(tmp_path, NEWER, user, extensions=[tasks]) as client:
        turn = asyncio.create_task(client.call_tool("prompt", {"text": "ask allow_once reject_once"}))
        await asyncio.wait_for(user.asking.wait(), PATIENCE)
        yes = {"action": "accept", "content": {"decision": "allow_once"}}
        late = {"decision": yes, "decision-0": yes, "decision-2": yes}
        await asked(client.session, "tasks/update", types.EmptyResult, taskId=tasks.task_id, inputResponses=late)
        state = await asked(client.session, "tasks/get", State, taskId=tasks.task_id)
        assert state.status == "input_required"
        await asked(client.session, "tasks/cancel", types.EmptyResult, taskId=tasks.task_id)
        while (
            state := await asked(client.session, "tasks/get", State, taskId=tasks.task_id)
        ).status != "cancelled":
            pass
        turn.cancel()
        await asyncio.wait([turn])


async def test_tasks_are_for_hosts_that_have_them_and_for_those_that_know_their_name(tmp_path: Path) -> None:
    async with driven(tmp_path, NEWER) as client:
        assert EXTENSION in (client.server_capabilities.extensions or {})
        assert (await call(client, "prompt", text="echo at once"))["text"] == "at once"
        with pytest.raises(MCPError) as lacking:
            await asked(client.session, "tasks/get", State, taskId="x")
        assert lacking.value.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
    async with driven(tmp_path, NEWER, extensions=[Tasks()]) as client:
        for method in ("tasks/get", "tasks/cancel"):
            with pytest.raises(MCPError, match="there is no such task"):
                await asked(client.session, method, State, taskId="guessed")
        result = await client.call_tool("prompt", {"sessionId": "nope", "text": "x"})
        assert result.is_error and "is not open" in result.content[0].text


def older_tasks(directory: Path, text: str) -> list[dict[str, Any]]:
    """What the official TypeScript client hears of a turn as a task; the Python one has no tasks of this form."""
    work = directory / "work"
    work.mkdir(exist_ok=True)
    homes = {name: str(directory / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    server = [sys.executable, "-I", "-m", "dragoman", "mcp", "--agent", "testy", "--workspace", str(work)]
    done = subprocess.run(
        [NODE, str(SCRIPT), str(SDK), text, *server],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, **homes},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@needs_inspector
def test_a_host_of_the_older_mcp_asks_for_a_task_and_is_asked_while_it_waits_for_the_result(tmp_path: Path) -> None:
    file = tmp_path / "work" / "new.txt"
    told = older_tasks(tmp_path, f"write {file} words")
    assert told[0]["type"] == "taskCreated" and told[0]["task"]["status"] == "working"
    (question,) = [one for one in told if one["type"] == "question"]
    assert str(file) in question["text"] and file.read_text() == "words"
    assert told[-1]["type"] == "result" and told[-1]["result"]["structuredContent"]["stopReason"] == "end_turn"


@needs_inspector
def test_a_host_of_the_older_mcp_cancels_its_task(tmp_path: Path) -> None:
    told = older_tasks(tmp_path, "wait")
    assert [one["task"]["status"] for one in told if one["type"] == "taskStatus"][-1] == "cancelled"


@pytest.mark.parametrize("way", WAYS, ids="-".join)
async def test_updates_are_log_messages_from_the_level_that_the_host_sets(
    tmp_path: Path, way: tuple[str, str]
) -> None:
    told: list[Any] = []

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        told.append((params.level, params.data["text"]))

    options = {"log_level": "info"} if way[1] == "auto" else {}
    async with driven(tmp_path, way, logging_callback=log, **options) as client:
        if way[1] == "legacy":
            await call(client, "prompt", text="echo unheard")
            assert not told
            await client.session.send_request(
                types.SetLevelRequest(params=types.SetLevelRequestParams(level="info")), types.EmptyResult
            )
        await call(client, "prompt", text="think deeply\ntool\necho Hello")
    assert ("info", "Hello") in told and any("completed" in text for _, text in told)
    assert not [level for level, _ in told if level == "debug"]
