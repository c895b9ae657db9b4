"""Our client drives an agent of version 2 written with the official SDK's pre-release, over a real process."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import dragoman
from dragoman import Transcript
from dragoman import schema as s
from dragoman.testing import RecordingClient

HERE = Path(__file__).parent
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(sdk_python: str):
    """Our client with an agent of theirs: one process for all tests."""
    command = [sdk_python, str(HERE / "sdk_agent.py")]
    async with dragoman.connect(command, RecordingClient()) as connected:
        yield connected


@pytest_asyncio.fixture(loop_scope="module")
async def session(client: RecordingClient):
    client.requests.clear()
    return await client.new_session("/home")


async def play(session: dragoman.Session, words: str) -> list[Any]:
    async with asyncio.timeout(10):
        return [event async for event in session.prompt(words)]


async def test_an_agent_that_has_version_2_alone_is_found_out_and_driven(session: dragoman.Session):
    client = session.client
    assert (session.dialect, client.agent_info.name) == ("v2", "scribe")
    assert client.agent_capabilities.load_session
    assert client.agent_capabilities.prompt_capabilities.image
    assert client.auth_methods == [s.AuthMethodAgent(id="browser", name="Log in")]
    await client.authenticate("browser")


async def test_what_their_agent_says_is_heard_once(session: dragoman.Session):
    events = await play(session, "talk")
    assert events[-1] == s.PromptResponse(stop_reason="end_turn")
    messages = [(message.speaker, message.text) for message in Transcript(events).messages]
    assert messages == [("thought", "Hm."), ("agent", "Good day"), ("agent", "One more")]


async def test_their_tool_calls_grow_piece_by_piece(session: dragoman.Session):
    events = await play(session, "edit")
    (call,) = Transcript(events).tool_calls
    assert (call.title, call.kind, call.status) == ("Edit", "edit", "completed")
    diff, words = call.content
    assert (diff.path, diff.old_text, diff.new_text) == ("/home/ada/a.py", "a = 1\n", "a = 2\n")
    assert words.content == s.TextContent(text="done")


async def test_their_terminals_are_shown_as_text(session: dragoman.Session):
    (call,) = Transcript(await play(session, "run")).tool_calls
    assert call.content[0].content.text == "$ make\none\ntwo\n[exit code 0]"
    assert call.status == "failed"  # version 1 has no word for cancelled


async def test_their_question_about_a_command_is_one_about_a_tool_call(session: dragoman.Session):
    events = await play(session, "ask")
    (asked,) = session.client.requests
    assert (asked.tool_call.title, asked.tool_call.kind) == ("Run make?", "execute")
    assert asked.tool_call.raw_input == {"command": "make", "cwd": "/home/ada"}
    assert Transcript(events).messages[-1].text == "selected"


async def test_their_plan_has_its_id_and_a_step_given_up_counts_as_done(session: dragoman.Session):
    plan = Transcript(await play(session, "plan")).plan
    assert plan.id == "p"
    assert [entry.status for entry in plan.plan.entries] == ["completed"]


async def test_their_mode_is_an_option_and_ours_a_mode(session: dragoman.Session):
    assert [mode.id for mode in session.modes.available_modes] == ["ask", "code"]
    await session.set_mode("code")
    options = await session.set_config_option("style", "ask")
    assert [option.current_value for option in options] == ["ask"]


async def test_a_turn_of_theirs_can_be_cancelled_and_refused(session: dragoman.Session):
    turn = session.prompt("wait")
    await anext(turn)
    session.cancel()
    assert (await turn).stop_reason == "cancelled"
    assert (await session.prompt("nonsense")).stop_reason == "refusal"


async def test_a_session_of_theirs_is_loaded_resumed_listed_and_closed(session: dragoman.Session):
    client = session.client
    loaded = await client.load_session("sess-1", "/home")
    messages = [(message.speaker, message.text) for message in Transcript(loaded.backlog()).messages]
    assert messages == [("user", "earlier"), ("agent", "long ago")]
    assert (await client.resume_session("sess-1", "/home")).modes is not None
    assert [found.session_id for found in await client.list_sessions()] == ["sess-1"]
    await client.close_session("sess-1")
