"""session/request_permission: only a chosen option that allows is a yes."""

import asyncio

import pytest

from dragoman import Client, Error, Transcript
from dragoman import schema as s
from dragoman.testing import RecordingClient

from .reading import open_session, play, said, tell


async def test_an_allowed_tool_runs(connect):
    async with connect(client=RecordingClient(permissions="allow")) as client:
        session = await open_session(client)
        events = await play(session, "ask")
        assert said(events) == "Allowed: allow."
        assert [event.status for event in events if isinstance(event, s.ToolCallUpdated)] == [
            "in_progress",
            "completed",
        ]


async def test_a_refused_tool_fails_and_never_runs(connect):
    async with connect(client=RecordingClient(permissions="reject")) as client:
        session = await open_session(client)
        events = await play(session, "ask")
        assert said(events) == "Not allowed: reject."
        assert [event.status for event in events if isinstance(event, s.ToolCallUpdated)] == ["failed"]
        assert events[-1].stop_reason == "end_turn"


async def test_an_unanswered_question_is_no_yes(connect):
    async with connect(client=RecordingClient(permissions="cancel")) as client:
        session = await open_session(client)
        events = await play(session, "ask")
        assert said(events) == "Not allowed: nothing."
        assert Transcript(events).tool_calls[0].status == "failed"


async def test_an_option_nobody_offered_is_no_yes(connect):
    async with connect(client=RecordingClient(permissions=lambda request: "allow_everything")) as client:
        session = await open_session(client)
        assert await tell(session, "ask") == "Not allowed: nothing."


@pytest.mark.parametrize("kind", ["allow_once", "allow_always", "reject_once", "reject_always"])
async def test_the_chosen_option_decides_by_its_kind(connect, kind):
    async with connect(client=RecordingClient(permissions=lambda request: kind)) as client:
        session = await open_session(client)
        words = "Allowed" if kind.startswith("allow") else "Not allowed"
        assert await tell(session, "ask reject_always allow_always reject_once allow_once") == f"{words}: {kind}."


async def test_the_question_says_what_it_is_about(connect):
    async with connect() as client:
        session = await open_session(client)
        events = await play(session, "ask allow_once reject_once")
        (request,) = client.requests
        assert request.session_id == session.id
        assert request.tool_call.tool_call_id == events[0].tool_call_id
        assert (request.tool_call.title, request.tool_call.kind) == ("Do something grave", "execute")
        assert request.tool_call.raw_input == {"really": True}
        assert [(option.option_id, option.kind) for option in request.options] == [
            ("allow_once", "allow_once"),
            ("reject_once", "reject_once"),
        ]


async def test_a_client_nobody_taught_to_ask_refuses(connect):
    async with connect(client=Client()) as client:
        session = await open_session(client)
        assert await tell(session, "ask") == "Not allowed: reject."
        assert await tell(session, "ask allow_once reject_always") == "Not allowed: reject_always."
        assert await tell(session, "ask allow_once allow_always") == "Not allowed: nothing."


async def test_a_user_may_take_their_time(connect):
    decided = asyncio.Event()

    async def decide(request):
        await decided.wait()
        return "allow"

    async with connect(client=RecordingClient(permissions=decide)) as client:
        session, other = await open_session(client), await open_session(client)
        turn = session.prompt("ask")
        assert await tell(other, "echo meanwhile") == "meanwhile"
        decided.set()
        assert said([event async for event in turn]) == "Allowed: allow."


async def test_a_question_that_cannot_be_asked_allows_nothing(connect):
    def crash(request):
        raise RuntimeError("the window is gone")

    async with connect(client=RecordingClient(permissions=crash)) as client:
        session = await open_session(client)
        events = []
        with pytest.raises(Error):
            async for event in session.prompt("ask"):
                events.append(event)
        assert "Allowed" not in said(events)
        assert Transcript(events).tool_calls[0].status == "failed"


@pytest.mark.parametrize(
    "outcome",
    [
        {"outcome": {"outcome": "approved", "optionId": "allow"}},
        {"outcome": {"outcome": "selected"}},
        {"outcome": {"outcome": "selected", "optionId": None}},
        {"outcome": "selected"},
        {"optionId": "allow"},
        {},
        None,
        True,
    ],
)
async def test_an_outcome_that_is_none_allows_nothing(speak, outcome):
    async with speak() as wire:
        await wire.initialize()
        session = (await wire.request("session/new", {"cwd": "/", "mcpServers": []}))["result"]["sessionId"]
        params = {"sessionId": session, "prompt": [{"type": "text", "text": "ask"}]}
        turn = wire.ask("session/prompt", params)
        words = ""
        while (message := await wire.receive()).get("id") != turn or "method" in message:
            if message["method"] == "session/request_permission":
                wire.send({"id": message["id"], "result": outcome})
            else:
                words += message["params"]["update"].get("content", {}).get("text", "") if _speaks(message) else ""
        assert "error" in message
        assert "Allowed" not in words


def _speaks(message):
    return message["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
