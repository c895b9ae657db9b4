"""Sessions of the real program: kept, listed, loaded with their history, forked, deleted; cancelled and killed."""

import asyncio
import os
import signal
import threading
from pathlib import Path

import pytest

import dragoman.schema as s
from dragoman.bridges.claude import ClaudeAgent
from dragoman.errors import InternalError, InvalidParams, ResourceNotFound
from dragoman.testing import pair

from .anthropic_server import Conversation, Hold, text, thinking, tool
from .clients import Bare, claude_pids, said, turn


async def reached(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 60)


class Listening(Bare):
    """Notices the first words of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.words = asyncio.Event()

    def update(self, params: s.SessionNotification) -> None:
        super().update(params)
        if isinstance(params.update, s.AgentMessageChunk):
            self.words.set()


async def test_a_loaded_session_tells_its_whole_history_and_goes_on(model: Conversation, work: Path) -> None:
    file = work / "a.py"
    file.write_text("one\ntwo\n")
    model.say(thinking("Hm."), text("First."), tool("Read", "t1", file_path=str(file)))
    model.say(tool("Edit", "t2", file_path=str(file), old_string="two", new_string="TWO"))
    model.say(text("Done."))
    async with pair(ClaudeAgent, Bare()) as client:
        session = await client.new_session(work)
        live = await turn(session, "change it")
        kept = await client.list_sessions(cwd=work)
    assert [(info.session_id, info.title, info.cwd) for info in kept] == [(session.id, "change it", str(work))]
    async with pair(ClaudeAgent, Bare()) as client:
        loaded = await client.load_session(session.id, work)
        history = list(loaded.backlog())
        model.say(text("Still here."))
        assert (await turn(loaded, "are you there?")).text == "Still here."
        told = [m for m in model.requests[-1]["messages"] if m["role"] == "user"]
    assert said(u for u in history if isinstance(u, s.UserMessageChunk)) == "change it"
    assert said(u for u in history if isinstance(u, s.AgentMessageChunk)) == live.text == "First.Done."
    assert said(u for u in history if isinstance(u, s.AgentThoughtChunk)) == "Hm."
    calls = {u.tool_call_id: u.title for u in history if isinstance(u, s.ToolCall)}
    assert calls == {"t1": "Read a.py", "t2": "Edit a.py"}
    ends = {u.tool_call_id: u for u in history if isinstance(u, s.ToolCallUpdated) and u.status}
    assert ends["t2"].content == [s.Diff(path=str(file), old_text="one\ntwo", new_text="one\nTWO")]
    assert isinstance(history[-1], s.AvailableCommandsUpdate)
    assert len(told) >= 4  # the model has the whole conversation


async def test_a_fork_has_the_history_and_a_life_of_its_own_and_a_deleted_session_is_gone(
    model: Conversation, work: Path
) -> None:
    model.say(text("One."))
    async with pair(ClaudeAgent, Bare()) as client:
        session = await client.new_session(work)
        await turn(session, "first")
        fork = await client.fork_session(session.id, work)
        assert fork.id != session.id
        model.say(text("Two."))
        assert (await turn(fork, "second")).text == "Two."
        assert "first" in str(model.requests[-1]["messages"])
        assert {info.session_id for info in await client.list_sessions(cwd=work)} == {session.id, fork.id}
        await client.delete_session(session.id)
        assert [info.session_id for info in await client.list_sessions(cwd=work)] == [fork.id]
        with pytest.raises(ResourceNotFound):
            await client.load_session(session.id, work)
        with pytest.raises(ResourceNotFound):
            await client.resume_session("7f9d6a1e-0000-4000-8000-000000000000", work)
        with pytest.raises(InvalidParams, match="does not exist"):
            await client.new_session(work / "nowhere")
        await client.close_session(fork.id)
        resumed = await client.resume_session(fork.id, work)
        model.say(text("Three."))
        assert (await turn(resumed, "third")).text == "Three."


async def test_a_turn_cancelled_in_the_middle_of_words_or_of_a_tool_ends_and_the_next_one_works(
    model: Conversation, work: Path
) -> None:
    hold = Hold()
    model.say(text("one "), hold, text("two"))
    async with pair(ClaudeAgent, Listening()) as client:
        session = await client.new_session(work)
        prompt = asyncio.ensure_future(turn(session, "talk"))
        await reached(hold.reached)
        await client.words.wait()
        session.cancel()
        told = await prompt
        hold.released.set()
        assert (told.text, told.response.stop_reason) == ("one ", "cancelled")

        started = work / "started"
        os.mkfifo(started)
        model.say(tool("Bash", "t1", command=f"echo > {started}; read never < {work}/never"))
        os.mkfifo(work / "never")
        prompt = asyncio.ensure_future(turn(session, "run"))
        await asyncio.to_thread(started.read_text)
        session.cancel()
        told = await prompt
        assert told.response.stop_reason == "cancelled"
        assert told.response.usage and told.response.usage.total_tokens == 175
        assert told.call("t1")["status"] == "failed"

        model.say(text("Here."))
        assert (await turn(session, "again")).text == "Here."


async def test_a_question_is_withdrawn_when_the_turn_is_cancelled(model: Conversation, work: Path) -> None:
    asked = asyncio.Event()

    async def think_it_over(_: s.RequestPermissionRequest) -> str | None:
        asked.set()
        await asyncio.Event().wait()
        return None

    client = Bare(permissions=think_it_over)
    model.say(tool("Write", "t1", file_path=str(work / "x"), content="x"))
    async with pair(ClaudeAgent, client):
        session = await client.new_session(work)
        prompt = asyncio.ensure_future(turn(session, "write"))
        await asked.wait()
        session.cancel()
        told = await prompt
        assert told.response.stop_reason == "cancelled"
        assert told.call("t1")["status"] == "failed"
        assert not (work / "x").exists()


async def test_a_program_that_does_not_stop_is_ended_and_started_again(model: Conversation, work: Path) -> None:
    class Impatient(ClaudeAgent):
        program_patience = 0.5

    hold = Hold()
    model.say(text("one "), hold)
    async with pair(Impatient, Bare()) as client:
        session = await client.new_session(work)
        prompt = asyncio.ensure_future(turn(session, "talk"))
        await reached(hold.reached)
        (pid,) = claude_pids()
        os.kill(pid, signal.SIGSTOP)
        session.cancel()
        assert (await prompt).response.stop_reason == "cancelled"
        hold.released.set()
        model.say(text("Here again."))
        assert (await turn(session, "again")).text == "Here again."
        assert pid not in claude_pids()


async def test_a_program_that_is_killed_is_one_clear_error_and_the_session_goes_on(
    model: Conversation, work: Path
) -> None:
    model.say(text("Before."))
    async with pair(ClaudeAgent, Bare()) as client:
        session = await client.new_session(work)
        await turn(session, "first")
        hold = Hold()
        model.say(tool("Bash", "t1", command="true"))
        model.say(text("half "), hold)
        prompt = asyncio.ensure_future(turn(session, "second"))
        await reached(hold.reached)
        (pid,) = claude_pids()
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(InternalError, match="ended unexpectedly"):
            await prompt
        hold.released.set()
        model.say(text("After."))
        assert (await turn(session, "third")).text == "After."  # the program was started again
        await client.close_session(session.id)
        loaded = await client.load_session(session.id, work)
        assert said(u for u in loaded.backlog() if isinstance(u, s.AgentMessageChunk)) == "Before.After."
        model.say(text("Loaded."))
        assert (await turn(loaded, "fourth")).text == "Loaded."


async def test_a_program_that_is_not_there_is_told_to_the_client(
    model: Conversation, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_EXECUTABLE", "/nowhere/claude")
    async with pair(ClaudeAgent, Bare()) as client:
        with pytest.raises(InternalError, match="cannot start '/nowhere/claude'"):
            await client.new_session(work)


async def test_prompts_wait_for_each_other_and_a_message_can_steer_the_turn_that_runs(
    model: Conversation, work: Path
) -> None:
    hold = Hold()
    model.say(text("one "), hold, text("never"))
    model.say(text("steered."))
    model.say(text("queued."))
    async with pair(ClaudeAgent, Listening()) as client:
        assert (client.agent.offers.meta or {})["claudeCode"] == {"promptQueueing": True}
        session = await client.new_session(work)
        running = asyncio.ensure_future(turn(session, "first"))
        await client.words.wait()
        waiting = asyncio.ensure_future(turn(session, "second"))
        await asyncio.sleep(0)
        words = [{"type": "text", "text": "do this instead"}]
        steering = {"sessionId": session.id, "prompt": words}
        assert await client.agent.request("_session/steering", steering) == {"outcome": "injected"}
        first, second = await running, await waiting
        hold.released.set()
        assert (first.text, first.response.stop_reason) == ("one steered.", "end_turn")
        assert second.text == "queued."
        idle = await client.agent.request("_session/steering", steering)
        assert idle == {"outcome": "promptRequired", "reason": "noRunningTurn"}
