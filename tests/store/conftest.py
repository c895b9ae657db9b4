"""Agents whose sessions are kept, and what a client sees of them."""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from dragoman import Agent, Turn
from dragoman import schema as s
from dragoman.store import Store, durable


class Notebook(Agent):
    """Does what the prompt says: a word a line."""

    modes = (s.SessionMode(id="ask", name="Ask"), s.SessionMode(id="code", name="Code"))
    config_options = (s.SessionConfigBoolean(id="loud", name="Loud", current_value=False),)
    commands = (s.AvailableCommand(name="help", description="Help"),)
    accepts = ("image", "additional_directories")

    async def answer(self, turn: Turn) -> s.StopReason | None:
        turn.session.state["prompts"] = [*turn.session.state.get("prompts", []), turn.text]
        for line in turn.text.splitlines():
            word, _, rest = line.partition(" ")
            match word:
                case "say":
                    await turn.say(rest)
                case "think":
                    await turn.think(rest)
                case "plan":
                    await turn.plan(*rest.split())
                case "tool":
                    async with turn.tool(rest, kind="edit", locations=["a.py"]) as call:
                        await call.text("working")
                case "mode":
                    await turn.session.set_mode(rest)
                case "title":
                    await turn.session.set_title(rest)
                case "echo":
                    await turn.update(s.UserMessageChunk(content=s.TextContent(text=rest), message_id="own"))
                case "recall":
                    await turn.say(" ".join(turn.session.state["prompts"][:-1]))
                case "meta":
                    notification = s.SessionNotification(
                        session_id=turn.session.id,
                        update=s.AgentMessageChunk(content=s.TextContent(text=rest)),
                        meta={"trace": 7},
                    )
                    turn.client.update(notification)
                case "many":
                    for number in range(int(rest)):
                        await turn.say(f"word {number} ")
                case "wait":
                    await asyncio.Event().wait()
        return None


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store(tmp_path / "store") as store:
        yield store


@pytest.fixture
def notebook(store: Store) -> type[Notebook]:
    return durable(Notebook, store)


@pytest.fixture
def read_only() -> Callable[[Path], contextlib.AbstractContextManager[None]]:
    """Makes a directory one that cannot be written, by whoever runs the tests."""

    @contextlib.contextmanager
    def frozen(path: Path) -> Iterator[None]:
        if os.geteuid():
            modes = {inside: inside.stat().st_mode for inside in (path, *path.iterdir())}
            for inside, mode in modes.items():
                inside.chmod(mode & 0o555)
            yield
            for inside, mode in modes.items():
                inside.chmod(mode)
            return
        subprocess.run(["mount", "--bind", path, path], check=True)
        try:
            subprocess.run(["mount", "-o", "remount,bind,ro", path], check=True)
            yield
        finally:
            subprocess.run(["umount", path], check=True)

    if not os.geteuid() and subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("root may not mount here, and can write everywhere")
    return frozen
