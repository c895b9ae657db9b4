"""The host on uvloop, which ASGI servers choose where it is installed."""

import asyncio
import sys
from pathlib import Path

import pytest
import uvloop
from patience import PATIENCE

from dragoman import Agent, connect
from dragoman.host import Host


class Runner(Agent):
    """Runs the prompt as a shell command, says what it printed, and writes it to a file."""

    async def answer(self, turn):
        async with turn.terminal("sh", "-c", turn.text) as terminal:
            await terminal.wait()
            output = await terminal.output()
        await turn.write(f"{turn.session.cwd}/said", output.output)
        await turn.say(output.output)


def on_uvloop(work):
    async def bounded():
        async with asyncio.timeout(PATIENCE):
            return await work

    return uvloop.run(bounded())


async def said(target, workspace, prompt):
    async with connect(target, Host(preset="allow-all")) as client:
        session = await client.new_session(workspace)
        events = [event async for event in session.prompt(prompt)]
        return "".join(event.content.text for event in events if hasattr(event, "content"))


def test_commands_and_files_work(tmp_path: Path) -> None:
    assert on_uvloop(said(Runner, tmp_path, "printf done")) == "done"
    assert (tmp_path / "said").read_text() == "done"


def test_a_command_that_takes_too_long_is_ended_with_its_turn(tmp_path: Path) -> None:
    async def given_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await said(Runner, tmp_path, "echo $$ > pid; exec sleep 1000")

    on_uvloop(given_up())
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_an_agent_process_is_reached(tmp_path: Path) -> None:
    testy = [sys.executable, "-m", "dragoman", "agent", "testy"]
    assert on_uvloop(said(testy, tmp_path, "echo hello")) == "hello"
