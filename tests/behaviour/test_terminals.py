"""terminal/*: commands the client runs for the agent."""

import shlex
import sys

import pytest

from dragoman import Client, Error
from dragoman import schema as s
from dragoman.testing import RecordingClient

from .reading import open_session, play, tell


def python(code):
    return f"{shlex.quote(sys.executable)} -S -c {shlex.quote(code)}"


async def test_a_command_is_run_and_its_output_and_end_are_known(connect):
    async with connect() as client:
        session = await open_session(client)
        code = "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(3)"
        assert await tell(session, f"run {python(code)}") == "out\nerr\n[exit 3]"
        assert [type(request) for request in client.requests] == [
            s.CreateTerminalRequest,
            s.WaitForTerminalExitRequest,
            s.TerminalOutputRequest,
            s.ReleaseTerminalRequest,
        ]


async def test_a_command_ended_by_a_signal_says_which(connect):
    async with connect() as client:
        session = await open_session(client)
        code = "import os, signal; print('x', flush=True); os.kill(os.getpid(), signal.SIGTERM)"
        assert await tell(session, f"run {python(code)}") == "x\n[signal SIGTERM]"


async def test_a_killed_command_leaves_its_output(connect):
    async with connect() as client:
        session = await open_session(client)
        assert await tell(session, "kill") == "[signal SIGKILL]"
        assert client.terminals == []


async def test_a_command_that_takes_too_long_is_killed(connect):
    async with connect() as client:
        session = await open_session(client)
        assert await tell(session, "overrun") == "[signal SIGKILL]"
        assert s.KillTerminalRequest in {type(request) for request in client.requests}


async def test_only_the_end_of_long_output_is_kept_cut_between_characters(connect):
    async with connect() as client:
        session = await open_session(client)
        code = "import sys; sys.stdout.buffer.write('éé€'.encode())"
        assert await tell(session, f"tail 4 {python(code)}") == "€[truncated, exit 0]"
        assert await tell(session, f"tail 100 {python(code)}") == "éé€[exit 0]"


async def test_a_released_terminal_is_gone(connect):
    async with connect() as client:
        session = await open_session(client)
        with pytest.raises(Error, match="terminal/output"):
            await session.prompt("released")


async def test_a_command_that_cannot_be_run_is_an_error_the_agent_sees(connect):
    async with connect() as client:
        session = await open_session(client)
        with pytest.raises(Error, match="terminal/create"):
            await session.prompt("run /nonexistent/command")
        assert await tell(session, "run echo on") == "on\n[exit 0]"
        assert client.terminals == []


async def test_terminals_live_side_by_side(connect):
    async with connect() as client:
        sessions = [await open_session(client) for _ in range(3)]
        turns = [session.prompt(f"run echo {number}") for number, session in enumerate(sessions)]
        for number, turn in enumerate(turns):
            words = [event.content.text async for event in turn if isinstance(event, s.AgentMessageChunk)]
            assert words == [f"{number}\n[exit 0]"]


async def test_without_a_terminal_nothing_is_asked_for(connect):
    async with connect(client=Client()) as client:
        session = await open_session(client)
        with pytest.raises(Error):
            await session.prompt("run echo hello")
        assert (await play(session, "echo on"))[-1].stop_reason == "end_turn"


async def test_a_terminal_is_released_when_the_turn_fails(connect):
    class Forgetful(RecordingClient):
        async def terminal_output(self, params):
            raise RuntimeError("what output?")

    async with connect(client=Forgetful()) as client:
        session = await open_session(client)
        with pytest.raises(Error):
            await session.prompt("run echo hello")
        assert client.terminals == []
