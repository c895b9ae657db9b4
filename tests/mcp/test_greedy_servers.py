"""Servers that want more than their share of a session: it goes on, and the user is not flooded."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE
from providing import said

from dragoman import Agent
from dragoman import schema as s
from dragoman.agent.turn import Turn
from dragoman.mcp import McpFailure, SamplingRequest, servers
from dragoman.testing import RecordingClient, pair

pytestmark = pytest.mark.usefixtures("nothing_left")

GREEDY = s.McpServerStdio(
    name="greedy", command=sys.executable, args=[str(Path(__file__).with_name("greedy_server.py"))], env=[]
)


class Caller(Agent):
    """Calls the tools that a prompt names, or reads a resource; says how long a result is, or why there is none."""

    async def answer(self, turn: Turn) -> None:
        async with turn.session.tools() as tools:
            for word in turn.text.split():
                try:
                    if "://" in word:
                        await tools.read(word)
                    else:
                        result = await tools.call(turn, word)
                        await turn.say(f"{len(result.content)} {len(result.text)} {result.text[:10]}\n")
                except McpFailure as exc:
                    await turn.say(f"{exc}\n")


class Sampling(Caller):
    """Answers what servers ask its model."""

    async def answer(self, turn: Turn) -> None:
        turn.session.tools(sampling=self.sampled)
        await super().answer(turn)

    async def sampled(self, request: SamplingRequest) -> str:
        return "Because."


async def told(
    cwd: Path, *prompts: str, agent: type[Agent] = Caller, **client: Any
) -> tuple[RecordingClient, list[str]]:
    recording = RecordingClient(**client)
    async with asyncio.timeout(PATIENCE), pair(agent, recording):
        session = await recording.new_session(cwd, mcp_servers=[GREEDY])
        return recording, await said(session, *prompts)


def shown(client: RecordingClient, call: str) -> list[s.ToolCallContent]:
    """What the client was shown last of a call."""
    ids = [
        u.update.tool_call_id for u in client.updates if isinstance(u.update, s.ToolCall) and call in u.update.title
    ]
    updates = [u.update for u in client.updates if isinstance(u.update, s.ToolCallUpdate)]
    return [list(u.content) for u in updates if u.tool_call_id in ids and u.content][-1]


async def test_a_description_that_no_message_can_hold_is_cut_for_the_client(tmp_path: Path) -> None:
    client, (words,) = await told(tmp_path, "greet")
    assert words == "1 5 hello\n"
    (commands,) = [
        u.update.available_commands for u in client.updates if isinstance(u.update, s.AvailableCommandsUpdate)
    ][-1:]
    assert [(len(each.name) < 300, len(each.description)) for each in commands] == [(True, 1000)]


async def test_a_result_is_shown_in_one_message_and_one_that_is_too_long_in_part(tmp_path: Path) -> None:
    client, (words,) = await told(tmp_path, "many large")
    assert words.split("\n")[:2] == [f"2000 {2000 * 1001 - 1} mmmmmmmmmm", f"3 {17_000_000 + 11} first"]
    assert len(shown(client, "many")) == 2000
    begin, left_out = shown(client, "large")
    assert isinstance(begin, s.Content) and begin.content == s.TextContent(text="first")
    assert isinstance(left_out, s.Content) and "2 more blocks" in str(left_out.content)
    sent = [u for u in client.updates if isinstance(u.update, s.ToolCallUpdate) and u.update.content]
    assert len(sent) == 2


async def test_a_server_may_ask_the_user_so_often_and_no_more(tmp_path: Path) -> None:
    client, (words,) = await told(tmp_path, "pester pester", form={"colour": "red"})
    assert [line[-9:] for line in words.splitlines()] == ["50 of 100", "50 of 100"]
    assert len([request for request in client.requests if isinstance(request, s.FormElicitation)]) == 100


@pytest.mark.parametrize(("agent", "answers"), [(Caller, 0), (Sampling, 20)])
async def test_an_agents_model_is_asked_if_the_author_agrees_and_so_often(
    agent: type[Agent], answers: int, tmp_path: Path
) -> None:
    _, (words,) = await told(tmp_path, "sample", agent=agent)
    assert words.rstrip().endswith(f" {answers} of 30")


async def test_a_page_that_nobody_was_shown_is_not_said_to_be_done_with(tmp_path: Path) -> None:
    client, (words,) = await told(tmp_path, "finished", visits=True)
    assert words == "1 5 hello\n" and client.notifications == []


async def test_a_resource_that_never_comes_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "READ", 0.5)
    _, (words,) = await told(tmp_path, "greedy://never greet")
    assert words == "greedy/greedy://never failed: no answer within 0.5 s\n1 5 hello\n"
