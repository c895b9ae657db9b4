"""Tasks of MCP 2026-07-28: an agent's tool is a turn of another agent, which `dragoman mcp` makes a task."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from patience import PATIENCE
from providing import said

from dragoman import Agent
from dragoman import schema as s
from dragoman.agent.turn import Turn
from dragoman.mcp import McpFailure
from dragoman.testing import RecordingClient, pair

pytestmark = pytest.mark.usefixtures("nothing_left")


class Asker(Agent):
    """Sends its prompt to the other agent."""

    async def answer(self, turn: Turn) -> None:
        async with turn.session.tools() as tools:
            try:
                await turn.say((await tools.call(turn, "prompt", {"text": turn.text})).text)
            except McpFailure as exc:
                await turn.say(f"failed: {exc}")


def other(cwd: Path) -> s.McpServerStdio:
    words = ["-I", "-m", "dragoman", "mcp", "--agent", "testy", "--workspace", str(cwd)]
    names = ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
    env = [s.EnvVariable(name=name, value=os.environ[name]) for name in names]
    return s.McpServerStdio(name="other", command=sys.executable, args=words, env=env)


@pytest.mark.parametrize("decision", ["allow_once", "reject_once"])
async def test_a_turn_of_another_agent_is_followed_and_its_questions_reach_the_user(
    decision: str, tmp_path: Path
) -> None:
    file = tmp_path / "new.txt"
    client = RecordingClient(form={"decision": decision})
    async with pair(Asker, client), asyncio.timeout(PATIENCE):
        session = await client.new_session(tmp_path, mcp_servers=[other(tmp_path)])
        echoed, written = await said(session, "echo Hello", f"write {file} words")
    assert echoed == "Hello"
    (question,) = [request for request in client.requests if isinstance(request, s.FormElicitation)]
    assert str(file) in question.message
    assert file.exists() == (decision == "allow_once")
    assert ("failed" in written) == (decision != "allow_once")


async def test_cancelling_the_turn_cancels_the_other_agents_turn(tmp_path: Path) -> None:
    client = RecordingClient()
    async with pair(Asker, client), asyncio.timeout(PATIENCE):
        session = await client.new_session(tmp_path, mcp_servers=[other(tmp_path)])
        prompt = session.prompt("wait")
        async for event in prompt:
            if isinstance(event, s.ToolCallUpdated) and "Waiting" in (event.title or ""):
                session.cancel()
        assert prompt.response.stop_reason == "cancelled"
        assert "still here" in (await said(session, "echo still here"))[0]
