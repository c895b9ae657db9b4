"""Our client against agents that misbehave on the wire: it survives, or says clearly why not; no orphan is left."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import uuid
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman import (
    AgentExited,
    AgentStartError,
    Client,
    Error,
    InternalError,
    MethodNotFound,
    RemoteProtocolError,
    Transcript,
    UnsupportedVersion,
    connect,
)
from dragoman import schema as s
from dragoman.testing import RecordingClient
from dragoman.testing.rogue.__main__ import BEHAVIOURS
from dragoman.testing.rogue.lines import LONG_LINE
from dragoman.testing.rogue.messages import MangledAnswers
from dragoman.transports import process

MARK = "DRAGOMAN_TEST_ROGUE"
HARMLESS = {
    "none",
    "duplicate-responses",
    "stray-responses",
    "batches",
    "noise",
    "bad-json",
    "deaf",
    "carriage-returns",
    "dribble",
    "echo-version",
    "loud-stderr",
    "immortal",
    "forking",
}

WITHOUT_ANSWER = {"mute", "silent"}  # only the caller can give these up


@pytest.fixture
def facing(monkeypatch):
    """`async with facing("behaviour") as client:`, within ten seconds and with no process left afterwards."""
    monkeypatch.setattr(process, "PATIENCE", 0.3)
    mark = uuid.uuid4().hex

    @asynccontextmanager
    async def connecting(behaviour, number=0, client=None):
        command = [sys.executable, "-m", "dragoman.testing.rogue", behaviour, str(number)]
        env = {**os.environ, MARK: mark}
        async with asyncio.timeout(10), connect(command, client or RecordingClient(), env=env) as connected:
            yield connected

    yield connecting
    left = list(marked(mark))
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


def marked(mark):
    """The processes that carry our mark in their environment, whoever their parent is by now."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in path.read_bytes():
                yield int(path.parent.name)


async def play(client, prompt="hello"):
    session = await client.new_session()
    return [event async for event in session.prompt(prompt)]


def said(events):
    return "".join(event.content.text for event in events if isinstance(event, s.AgentMessageChunk))


async def works(client):
    """Whether a whole turn goes as it should."""
    events = await play(client)
    return said(events) == "hello" and events[-1] == s.PromptResponse(stop_reason="end_turn")


# What is survived as if nothing were


@pytest.mark.parametrize("behaviour", sorted(HARMLESS))
async def test_a_turn_goes_as_it_should(facing, behaviour):
    async with facing(behaviour) as client:
        assert await works(client)
        assert await works(client)


async def test_updates_before_their_session_is_answered_are_kept(facing):
    async with facing("early-updates") as client:
        session = await client.new_session()
        early = list(session.backlog())
        assert early[0] == s.CurrentModeUpdate(current_mode_id="early")
        assert said(early) == "early"
        assert said([event async for event in session.prompt("hello")]) == "hello"


async def test_updates_after_the_answer_are_read_between_the_turns(facing):
    async with facing("late-updates") as client:
        session = await client.new_session()
        first = [event async for event in session.prompt("one")]
        assert said(first) == "one"
        assert isinstance(first[-1], s.PromptResponse)
        assert said([await anext(session.updates())]) == "late"
        assert said([event async for event in session.prompt("two")]) == "two"


async def test_a_tool_call_nobody_announced_is_shown(facing):
    async with facing("orphan-update") as client:
        (call,) = Transcript(await play(client)).tool_calls
        assert (call.id, call.title, call.status) == ("ghost", "Ghost", "completed")


async def test_requests_with_string_ids_are_answered_by_these_ids(facing):
    async with facing("string-ids", client=RecordingClient(permissions="allow")) as client:
        assert said(await play(client)) == "selected selected "
        assert len(client.requests) == 2
    async with facing("string-ids", client=Client()) as client:
        assert said(await play(client)) == "cancelled cancelled "


async def test_null_is_taken_for_an_empty_answer(facing):
    async with facing("null-results") as client:
        assert await client.list_sessions() == []
        session = await client.new_session()
        await session.set_mode("any")
        assert await works(client)


async def test_unknown_requests_are_refused_and_unknown_notifications_ignored(facing):
    async with facing("unknown-methods") as client:
        assert said(await play(client)) == "-32601"


async def test_what_a_peer_does_not_know_either_is_its_error(facing):
    async with facing("none") as client:
        with pytest.raises(MethodNotFound):
            await client.authenticate("key")


async def test_a_line_of_half_a_megabyte_passes(facing):
    async with facing("long-line") as client:
        assert len(said(await play(client))) == LONG_LINE


async def test_a_stop_reason_nobody_has_heard_of_ends_the_turn(facing):
    async with facing("unknown-stop-reason") as client:
        assert (await play(client))[-1].stop_reason == "_bored"


async def test_an_answer_that_is_none_is_an_error_of_the_peer(facing):
    async with facing("wrong-result") as client:
        session = await client.new_session()
        with pytest.raises(RemoteProtocolError, match="session/prompt"):
            await session.prompt("hello")
        assert await client.new_session()


@pytest.mark.parametrize("way", range(len(MangledAnswers.WAYS)))
async def test_an_answer_that_nobody_can_read_fails_its_prompt_and_the_connection_goes_on(facing, way):
    async with facing("mangled-answers", way) as client:
        session = await client.new_session()
        for _ in range(2):
            events = []
            with pytest.raises(RemoteProtocolError, match="session/prompt"):
                async for event in session.prompt("hello"):
                    events.append(event)
            assert said(events) == "hello"
        assert await client.list_sessions()


# What cannot be survived is said clearly


@pytest.mark.parametrize("version", [0, 2, 99])
async def test_another_version_is_named(facing, version):
    with pytest.raises(AgentStartError, match=f"version {version}"):
        async with facing("other-version", version):
            pass


async def test_a_refused_version_is_the_agents_error(facing):
    with pytest.raises(UnsupportedVersion) as caught:
        async with facing("refuse-version"):
            pass
    assert caught.value.data == {"supported": [7]}


async def test_an_agent_that_ends_at_once_is_quoted(facing):
    with pytest.raises(AgentStartError, match="no API key") as caught:
        async with facing("stillborn", 3):
            pass
    assert caught.value.status == 3


async def test_an_agent_that_never_answers_can_be_given_up(facing):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5), facing("mute"):
            pass


async def test_a_prompt_that_is_never_answered_can_be_given_up(facing):
    async with facing("silent") as client:
        session = await client.new_session()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await session.prompt("hello")
        assert await client.list_sessions()


async def test_an_agent_that_closes_its_stdout_has_hung_up(facing):
    async with facing("closed-stdout") as client:
        session = await client.new_session()
        events = []
        with pytest.raises(AgentExited):
            async for event in session.prompt("hello"):
                events.append(event)
        assert said(events) == "closing"
        with pytest.raises(AgentExited):
            await client.new_session()


CONVERSATION = 600  # bytes that the well-behaved rogue writes in one turn, roughly


@pytest.mark.parametrize("offset", [1, 40, 119, 120, 121, 190, 191, 300, CONVERSATION])
async def test_a_crash_at_any_byte_ends_everything_with_its_reason(facing, offset):
    try:
        async with facing("crash-at-byte", offset) as client:
            while True:  # until it crashes
                await play(client)
    except (AgentStartError, AgentExited) as exc:
        assert exc.status == -signal.SIGKILL
        assert "out of bytes" in exc.stderr
    else:
        raise AssertionError("it did not crash")


@pytest.mark.parametrize("behaviour", sorted(set(BEHAVIOURS) - HARMLESS - WITHOUT_ANSWER))
async def test_nothing_that_a_peer_sends_leaves_its_client_hanging(facing, behaviour):
    try:
        async with facing(behaviour, 200) as client:
            assert isinstance((await play(client))[-1], s.PromptResponse)
            assert isinstance(await client.list_sessions(), list)
    except Error as outcome:
        assert str(outcome)


# What was never an agent


@pytest.mark.parametrize(
    "command",
    [
        ["/nonexistent/agent"],
        [],
        "",
        "   ",
        "'unbalanced",
        ["/"],
        ["a\0b"],
    ],
)
async def test_what_cannot_be_started_says_so(command):
    with pytest.raises(AgentStartError):
        async with connect(command):
            pass


async def test_a_program_that_is_no_agent_says_so():
    async with asyncio.timeout(10):
        with pytest.raises(AgentStartError):
            async with connect([sys.executable, "-S", "-c", "print('hello'); input()"]):
                pass


async def test_an_error_in_this_process_is_the_error_of_its_agent():
    def app(client):
        raise RuntimeError("cannot be built")

    async with asyncio.timeout(10):
        with pytest.raises((AgentStartError, InternalError), match="cannot be built"):
            async with connect(app):
                pass


# The rogue itself


def test_the_behaviours_are_listed():
    command = [sys.executable, "-m", "dragoman.testing.rogue"]
    listed = subprocess.run([*command, "--list"], capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in listed.splitlines()] == list(BEHAVIOURS)
    wrong = subprocess.run([*command, "politely"], capture_output=True, text=True)
    assert wrong.returncode == 64
    assert "usage" in wrong.stderr
