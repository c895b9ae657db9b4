"""Agents that are killed, by the hundred."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from torture.store_kills import kill_agents
from torture.workers import share_out

from dragoman import AgentExited, connect
from dragoman import schema as s
from dragoman.errors import InternalError


def test_200_killed_agents_lose_repeat_and_reorder_nothing() -> None:
    counts = share_out(kill_agents, 200, 61)
    print(dict(counts))
    assert counts["killed in a turn"] > 100
    assert counts["shown"] > 1000


DYING = """
import asyncio, os, sys
from dragoman import Agent, serve
from dragoman.store import Store, durable

class Dying(Agent):
    async def answer(self, turn):
        if turn.text.startswith("die"):
            os.kill(os.getpid(), int(turn.text.removeprefix("die of ")))
            await asyncio.Event().wait()
        await turn.say("alive")

serve(durable(Dying, Store(sys.argv[1])))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_a_prompt_is_stored_before_the_model_sees_it_and_interrupted_if_its_agent_ends(
    tmp_path: Path, number: int
) -> None:
    agent = [sys.executable, "-c", DYING, str(tmp_path / "store")]
    async with asyncio.timeout(30):
        async with connect(agent) as client:
            session = await client.new_session("/")
            with pytest.raises((AgentExited, InternalError)) as caught:
                await session.prompt(f"die of {number:d}")
            is_told = isinstance(caught.value, InternalError)  # by an agent that could still say so
            assert is_told == (number != signal.SIGKILL)
            if is_told:
                assert caught.value.data == {"kind": "agent_stopped"}
        async with connect(agent) as client:
            loaded = await client.load_session(session.id, "/")
            told = [(type(u), u.content.text) for u in loaded.backlog()]  # type: ignore[union-attr]
            assert told[0] == (s.UserMessageChunk, f"die of {number:d}")
            assert told[1][0] is s.AgentMessageChunk
            assert told[1][1].startswith("Interrupted")
            events = [event async for event in loaded.prompt("go on")]
            assert [e.content.text for e in events if isinstance(e, s.AgentMessageChunk)] == ["alive"]  # type: ignore[union-attr]
