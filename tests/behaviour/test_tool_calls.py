"""Tool calls: how a client sees a tool at work."""

import pytest

from dragoman import InternalError, Transcript
from dragoman import schema as s
from dragoman.testing.script import SECRET

from .reading import open_session, play


async def test_a_tool_goes_from_pending_to_completed(connect):
    async with connect() as client:
        session = await open_session(client)
        announced, *changes, _ = await play(session, "tool")
        assert (announced.status, announced.kind, announced.name) == ("pending", "edit", "edit")
        assert announced.locations == [s.ToolCallLocation(path="/a.py", line=3)]
        assert announced.raw_input == {"path": "a.py"}
        assert [change.status for change in changes] == ["in_progress", None, "completed"]
        assert changes[2].raw_output == {"changed": 1}


async def test_a_tool_shows_text_diffs_and_terminals(connect):
    async with connect() as client:
        session = await open_session(client)
        (call,) = Transcript(await play(session, "tool")).tool_calls
        words, diff, terminal = call.content
        assert words.content.text == "Editing."
        assert (diff.path, diff.old_text, diff.new_text) == ("/a.py", "a = 1\n", "a = 2\n")
        assert terminal == s.Terminal(terminal_id="terminal-1")
        assert (call.title, call.status, call.name) == ("Edit a.py, line 3", "completed", "edit")


async def test_a_tool_that_fails_says_why(connect):
    async with connect() as client:
        session = await open_session(client)
        (call,) = Transcript(await play(session, "failed_tool")).tool_calls
        assert call.status == "failed"
        assert call.content[0].content.text == "No such file."
        assert call.raw_output is None


async def test_a_tool_in_whose_middle_the_turn_fails_is_shown_as_failed(connect):
    async with connect() as client:
        session = await open_session(client)
        transcript = Transcript()
        with pytest.raises(InternalError):
            async for event in session.prompt("fail_tool"):
                transcript.apply(event)
        (call,) = transcript.tool_calls
        assert call.status == "failed"
        shown = [block.content.text for block in call.content]
        assert shown[0] == "Breaking."
        assert "RuntimeError" in shown[1]
        assert SECRET not in "".join(shown)


async def test_a_tool_that_runs_a_command_shows_its_terminal(connect):
    async with connect() as client:
        session = await open_session(client)
        (call,) = Transcript(await play(session, "run echo hello")).tool_calls
        assert call.kind == "execute"
        assert call.status == "completed"
        assert isinstance(call.content[0], s.Terminal)


async def test_every_tool_call_has_an_id_of_its_own(connect):
    async with connect() as client:
        session = await open_session(client)
        transcript = Transcript(await play(session, "ask\nask\nask"))
        assert len({call.id for call in transcript.tool_calls}) == 3
        assert {call.status for call in transcript.tool_calls} == {"completed"}


async def test_raw_input_and_output_may_be_anything(connect):
    async with connect() as client:
        session = await open_session(client)
        announced, changed, _ = await play(session, "failed_tool")
        assert announced.raw_input is s.UNSET
        assert changed.raw_output is None
