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


async def test_the_chosen_option_decides_by_its_kind(connect):
    async with connect() as client:
        session = await open_session(client)
        for option in range(4):
            client.permissions = lambda request, option=option: request.options[option].option_id
            answer = await tell(session, "ask reject_always allow_always reject_once allow_once")
            assert (
                answer
                == (
                    "Not allowed: reject_always.",
                    "Allowed: allow_always.",
                    "Not allowed: reject_once.",
                    "Allowed: allow_once.",
                )[option]
            )


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


async def test_an_outcome_that_is_none_allows_nothing(speak):
    async with speak() as wire:
        await wire.initialize()
        session = (await wire.request("session/new", {"cwd": "/", "mcpServers": []}))["result"]["sessionId"]
        await wire.receive()  # the commands
        for outcome in (
            {"outcome": {"outcome": "approved", "optionId": "allow"}},
            {"outcome": {"outcome": "selected"}},
            {"outcome": {"outcome": "selected", "optionId": None}},
            {"outcome": "selected"},
            {"optionId": "allow"},
            {},
            None,
            True,
        ):
            turn = wire.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "ask"}]})
            kinds = []
            while "method" in (message := await wire.receive()):
                if message["method"] == "session/request_permission":
                    wire.send({"id": message["id"], "result": outcome})
                else:
                    kinds.append(message["params"]["update"]["sessionUpdate"])
            assert (message["id"], message["error"]["code"]) == (turn, -32603)
            assert kinds == ["tool_call", "tool_call_update"]  # announced, failed, and no word of being allowed
