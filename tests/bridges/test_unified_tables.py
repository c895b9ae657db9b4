"""Both tables of the unified messages, row by row, with a real agent process that uses no library."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman import schema as s
from dragoman.bridges.unified import (
    UnifiedMessage,
    UnifiedMessageError,
    configuration_change,
    interrupt,
    permission_response,
    user_message,
)

from .unified_agent import BareAgent, connected, turn, until

pytestmark = pytest.mark.usefixtures("nothing_left")

BLOCK = {"type": "content", "content": {"type": "text", "text": "Edited."}}
DIFF = {"type": "diff", "path": "/a.py", "oldText": "a", "newText": "b"}
CALL = {"toolCallId": "call-1", "title": "Edit a.py", "kind": "edit"}


@pytest.fixture
def agent(tmp_path: Path) -> BareAgent:
    return BareAgent(tmp_path)


# From the agent


async def test_the_answer_to_initialize_is_a_session_init(agent: BareAgent, tmp_path: Path) -> None:
    async with connected(agent.command, tmp_path) as session:
        first = await anext(session.messages)
    assert (first.type, first.role) == ("session_init", "system")
    assert first.metadata["agentInfo"] == {"name": "bare", "version": "7"}
    assert first.metadata["agentCapabilities"] == {"loadSession": True}


async def test_the_answer_to_session_new_is_a_session_init(agent: BareAgent, tmp_path: Path) -> None:
    async with connected(agent.command, tmp_path) as session:
        _, second = await anext(session.messages), await anext(session.messages)
        assert (session.session_id, session.backend_session_id) == ("mine", "s")
    assert (second.type, second.role) == ("session_init", "system")
    assert second.metadata["sessionId"] == "s"


ROWS: list[tuple[str, str, str, str, dict[str, Any]]] = [
    ("agent_message_chunk", "stream_event", "assistant", "Hello.", {}),
    ("agent_thought_chunk", "stream_event", "assistant", "Hm.", {"thought": True, "messageId": "m-1"}),
    ("tool_call", "tool_progress", "tool", "", {**CALL, "status": "pending"}),
    (
        "tool_call_update",
        "tool_progress",
        "tool",
        "Edited.",
        {"toolCallId": "call-1", "status": "in_progress", "content": [BLOCK]},
    ),
    (
        "plan",
        "status_change",
        "system",
        "",
        {"status": "plan", "entries": [{"content": "Look", "priority": "high", "status": "pending"}]},
    ),
    (
        "available_commands_update",
        "unknown",
        "system",
        "",
        {
            "update": {
                "sessionUpdate": "available_commands_update",
                "availableCommands": [{"name": "web", "description": "Search the web"}],
            }
        },
    ),
    ("current_mode_update", "configuration_change", "system", "", {"modeId": "architect"}),
    ("hologram_update", "unknown", "system", "", {"update": {"sessionUpdate": "hologram_update", "shape": "cube"}}),
]


@pytest.mark.parametrize(("update", "type", "role", "text", "metadata"), ROWS, ids=[row[0] for row in ROWS])
async def test_an_update_becomes_the_message_of_its_row(
    agent: BareAgent, tmp_path: Path, update: str, type: str, role: str, text: str, metadata: dict[str, Any]
) -> None:
    async with connected(agent.command, tmp_path) as session:
        message, _ = await turn(session, update)
    assert (message.type, message.role, message.text, message.metadata) == (type, role, text, metadata)


@pytest.mark.parametrize(("status", "failure"), [("completed", {}), ("failed", {"is_error": True})])
async def test_a_tool_call_that_ends_is_a_tool_use_summary_with_all_that_it_showed(
    agent: BareAgent, tmp_path: Path, status: str, failure: dict[str, Any]
) -> None:
    async with connected(agent.command, tmp_path) as session:
        *progress, summary, _ = await turn(session, f"finish {status}")
    assert [message.type for message in progress] == ["tool_progress", "tool_progress"]
    assert (summary.type, summary.role, summary.text) == ("tool_use_summary", "tool", "Edited.")
    assert summary.metadata == {**CALL, "status": status, "content": [BLOCK, DIFF], **failure}


async def test_a_tool_call_that_is_over_when_it_is_announced_is_progress_and_then_a_summary(
    agent: BareAgent, tmp_path: Path
) -> None:
    async with connected(agent.command, tmp_path) as session:
        messages = await turn(session, "done")
    assert [message.type for message in messages] == ["tool_progress", "tool_use_summary", "result"]


async def test_a_permission_request_is_a_message_in_its_place(agent: BareAgent, tmp_path: Path) -> None:
    async with connected(agent.command, tmp_path) as session:
        await session.send(user_message("ask"))
        *_, request, behind = await until(session, lambda message: message.text == "Asked.")
        assert (request.type, request.role) == ("permission_request", "system")
        assert request.metadata["toolCall"] == {"toolCallId": "call-1", "title": "Edit a.py"}
        assert [option["optionId"] for option in request.metadata["options"]] == ["always", "once", "no"]
        assert behind.type == "stream_event"
        await session.send(permission_response(request.metadata["requestId"], "deny"))
        await until(session)


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "max_turn_requests", "refusal"])
async def test_the_answer_to_a_prompt_is_a_result(agent: BareAgent, tmp_path: Path, reason: str) -> None:
    async with connected(agent.command, tmp_path) as session:
        (result,) = await turn(session, f"stop {reason}")
    assert (result.type, result.role, result.metadata) == ("result", "system", {"stopReason": reason})


# To the agent


async def test_a_user_message_is_a_prompt(agent: BareAgent, tmp_path: Path) -> None:
    link = s.ResourceLink(name="doc.pdf", uri="file:///doc.pdf")
    async with connected(agent.command, tmp_path) as session:
        await session.send(user_message([s.TextContent(text="hello"), link]))
        await until(session)
        image = s.ImageContent(data="eA==", mime_type="image/png")
        for refused in (user_message(image), user_message([])):
            with pytest.raises(UnifiedMessageError):
                await session.send(refused)
    blocks = [{"type": "text", "text": "hello"}, {"type": "resource_link", "name": "doc.pdf", "uri": link.uri}]
    assert agent.asked("session/prompt") == [{"sessionId": "s", "prompt": blocks}]


@pytest.mark.parametrize(
    ("offered", "behavior", "named", "outcome"),
    [
        ("always once no", "allow", None, {"outcome": "selected", "optionId": "once"}),
        ("always no", "allow", None, {"outcome": "selected", "optionId": "always"}),
        ("always once no", "allow", "always", {"outcome": "selected", "optionId": "always"}),
        ("always once no", "deny", None, {"outcome": "selected", "optionId": "no"}),
        ("always once", "deny", None, {"outcome": "cancelled"}),
    ],
)
async def test_a_permission_response_is_the_outcome_of_its_row(
    agent: BareAgent, tmp_path: Path, offered: str, behavior: Any, named: str | None, outcome: dict[str, str]
) -> None:
    async with connected(agent.command, tmp_path) as session:
        await session.send(user_message(f"ask {offered}"))
        *_, request = await until(session, lambda message: message.type == "permission_request")
        await session.send(permission_response(request.metadata["requestId"], behavior, option_id=named))
        await until(session)
    (answer,) = [message["result"] for message in agent.heard if message.get("id") == "q"]
    assert answer == {"outcome": outcome}


@pytest.mark.parametrize(
    "metadata",
    [
        {"behavior": "maybe"},
        {},
        {"behavior": "allow", "optionId": "no"},
        {"behavior": "deny", "optionId": "once"},
        {"behavior": "allow", "requestId": "another"},
    ],
)
async def test_a_permission_response_that_is_not_understood_allows_nothing(
    agent: BareAgent, tmp_path: Path, metadata: dict[str, str]
) -> None:
    async with connected(agent.command, tmp_path) as session:
        await session.send(user_message("ask"))
        *_, request = await until(session, lambda message: message.type == "permission_request")
        id = request.metadata["requestId"]
        wrong = UnifiedMessage(type="permission_response", role="user", metadata={"requestId": id, **metadata})
        with pytest.raises(UnifiedMessageError):
            await session.send(wrong)
        await session.send(permission_response(id, "deny"))
        await until(session)
        with pytest.raises(UnifiedMessageError, match="no open permission request"):
            await session.send(permission_response(id, "allow"))
    assert [message["result"]["outcome"] for message in agent.heard if message.get("id") == "q"] == [
        {"outcome": "selected", "optionId": "no"}
    ]


@pytest.mark.parametrize("steps", [0, 10], ids=["at once", "when the question waits"])
async def test_an_interrupt_is_a_cancel_and_withdraws_the_open_question(
    agent: BareAgent, tmp_path: Path, steps: int
) -> None:
    async with connected(agent.command, tmp_path) as session:
        await session.send(user_message("ask"))
        *_, request = await until(session, lambda message: message.type == "permission_request")
        for _ in range(steps):
            await asyncio.sleep(0)  # a step of the loop
        await session.send(interrupt())
        *_, result = await until(session)
        with pytest.raises(UnifiedMessageError):
            await session.send(permission_response(request.metadata["requestId"], "allow"))
    assert result.metadata == {"stopReason": "cancelled"}
    assert agent.asked("session/cancel") == [{"sessionId": "s"}]
    (cancel,) = [message for message in agent.heard if message.get("method") == "session/cancel"]
    assert "id" not in cancel
    assert [m["result"] for m in agent.heard if m.get("id") == "q"] == [{"outcome": {"outcome": "cancelled"}}]


@pytest.mark.parametrize(
    ("change", "method", "params"),
    [
        (configuration_change(model="l"), "session/set_model", {"sessionId": "s", "modelId": "l"}),
        (configuration_change(mode="code"), "session/set_mode", {"sessionId": "s", "modeId": "code"}),
    ],
    ids=["model", "mode"],
)
async def test_a_configuration_change_is_the_request_of_its_row(
    agent: BareAgent, tmp_path: Path, change: UnifiedMessage, method: str, params: dict[str, str]
) -> None:
    async with connected(agent.command, tmp_path) as session:
        await session.send(change)
        *_, done = await until(session, lambda message: message.type == "configuration_change")
    assert agent.asked(method) == [params]
    assert done.metadata == change.metadata


async def test_a_change_that_the_agent_refuses_is_told_as_an_error(agent: BareAgent, tmp_path: Path) -> None:
    async with connected(agent.command, tmp_path) as session:
        await session.send(configuration_change(mode="nowhere"))
        *_, failed = await until(session, lambda message: message.type == "configuration_change")
        assert failed.metadata == {
            "modeId": "nowhere",
            "is_error": True,
            "error": {"code": -32602, "message": "there is none"},
        }
        for wrong in (configuration_change(), UnifiedMessage(type="result", role="system")):
            with pytest.raises(UnifiedMessageError):
                await session.send(wrong)


def test_a_message_is_the_same_after_a_trip_as_json() -> None:
    message = user_message([s.TextContent(text="tea"), s.ResourceLink(name="a", uri="file:///a")])
    assert UnifiedMessage.from_json(message.to_json()) == message
    for wrong in (b"{}", b"[", b'{"type": "teapot", "role": "user"}'):
        with pytest.raises(UnifiedMessageError):
            UnifiedMessage.from_json(wrong)
