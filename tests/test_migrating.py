"""The ten programs of docs/guide/migrating.md, written with the official SDK and with Dragoman, behave alike."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

from dragoman import RpcError, connect
from dragoman import schema as s
from dragoman.testing import RecordingClient

pytest.importorskip("acp", reason="the official SDK is not installed")

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "migrating.md"
PAIRS = {
    title: tuple(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    for title, text in re.findall(
        r"^## (\d+\. [^\n]+)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
}
AGENTS = [title for title, (_, ours) in PAIRS.items() if "serve(" in ours]
CLIENTS = [title for title in PAIRS if title not in AGENTS]
# What the clients of the page drive: it echoes, asks, and makes a note upper-case.
DRIVEN = """
from dragoman import Agent, serve


class Driven(Agent):
    async def answer(self, turn):
        if turn.text == "hello":
            await turn.say("You said: hello")
        elif turn.text == "ask":
            async with turn.tool("Delete everything", kind="delete") as call:
                return None if await turn.ask(call) else "refusal"
        elif turn.text == "upper":
            await turn.write("note.txt", (await turn.read("note.txt")).upper())


serve(Driven)
"""


def test_there_are_ten_pairs() -> None:
    assert len(PAIRS) == 10
    assert all(len(pair) == 2 and "from acp import" in pair[0] and "acp" not in pair[1] for pair in PAIRS.values())
    assert len(AGENTS) == 7


async def behaviour(program: str, directory: Path, answer: str) -> list[Any]:
    """All that a client notices of an agent: what it is told and asked, and how its turn ends."""
    (directory / "agent.py").write_text(program)
    client = RecordingClient(permissions=answer, files={str(directory / "notes.txt"): "  tea  "})  # type: ignore[arg-type]
    async with connect([sys.executable, str(directory / "agent.py")], client):
        seen: list[Any] = []
        try:
            session = await client.new_session(directory)
            if session.modes:
                seen.append([mode.id for mode in session.modes.available_modes])
                await session.set_mode(session.modes.available_modes[-1].id)
            async for event in session.prompt("hello"):
                seen.append(told(event))
                if isinstance(event, s.AgentMessageChunk) and event.content.text == "Working.":  # type: ignore[union-attr]
                    session.cancel()
        except RpcError as exc:
            seen.append(exc.code)
    asked = [type(request).__name__ for request in client.requests]
    return [entry for entry in seen if entry] + asked + sorted(client.files.items())


def told(event: Any) -> Any:
    """What matters of an event; the two differ in ids and in how often they say the same of a tool call."""
    match event:
        case s.AgentMessageChunk(content=s.TextContent(text=text)):
            return text
        case s.AgentThoughtChunk(content=s.TextContent(text=text)):
            return ("thought", text)
        case s.Plan():
            return [(entry.content, entry.status) for entry in event.entries]
        case s.ToolCall():
            return (event.title, event.kind)
        case s.ToolCallUpdated() if event.status in ("completed", "failed"):
            return event.status
        case s.PromptResponse():
            return event.stop_reason
    return None


@pytest.mark.parametrize("answer", ["allow", "reject", "cancel"])
@pytest.mark.parametrize("title", AGENTS)
async def test_two_agents_of_a_pair_behave_alike(title: str, answer: str, tmp_path: Path) -> None:
    official, ours = [await behaviour(program, tmp_path, answer) for program in PAIRS[title]]
    assert official == ours
    assert len(ours) > 1


@pytest.mark.parametrize("title", CLIENTS)
def test_two_clients_of_a_pair_print_the_same(title: str, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(DRIVEN)
    printed = []
    for program in PAIRS[title]:
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    assert printed[0] == printed[1] != ""


def test_a_pair_is_shorter_with_us() -> None:
    """The page says so with every pair; none was stretched for the comparison."""
    for official, ours in PAIRS.values():
        assert len(ours.splitlines()) < len(official.splitlines())
