"""The same escapes, tried by an agent in a process of its own."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from test_files_paths import ESCAPES, Yard, legitimate

from dragoman import Client, connect
from dragoman.host.files import Workspace

AGENT = """
import json
from dragoman import Agent, serve
from dragoman import schema as s
from dragoman.errors import RpcError

class Burglar(Agent):
    async def answer(self, turn):
        for path in json.loads(turn.text):
            of = {"session_id": turn.session.id, "path": path}
            try:
                content = (await turn.client.read_text_file(s.ReadTextFileRequest(**of))).content
                await turn.client.write_text_file(s.WriteTextFileRequest(**of, content=content))
                await turn.say(json.dumps(len(content)) + chr(10))
            except RpcError as error:
                await turn.say(json.dumps(error.code) + chr(10))

serve(Burglar)
"""


class Editor(Client):
    """Each session has a workspace of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.workspaces: dict[str, Workspace] = {}

    async def read_text_file(self, params):
        return await self.workspaces[params.session_id].read_text_file(params)

    async def write_text_file(self, params):
        return await self.workspaces[params.session_id].write_text_file(params)

    async def burgle(self, yard: Yard, *paths: str) -> list[int]:
        """What the agent gets for each path: a number of characters, or the code of an error."""
        session = await self.new_session(cwd=yard.ws)
        said = ""
        with Workspace(yard.ws, state=yard.top / "state") as self.workspaces[session.id]:
            async for event in session.prompt(json.dumps(paths)):
                said += getattr(getattr(event, "content", None), "text", "")
        return [json.loads(line) for line in said.splitlines()]


@pytest.fixture
async def editor(nothing_left):
    async with asyncio.timeout(60), connect([sys.executable, "-c", AGENT], Editor()) as client:
        yield client


async def test_an_agent_gets_nothing_from_outside(tmp_path: Path, editor: Editor) -> None:
    for number, (name, escape) in enumerate(ESCAPES.items()):
        if name in ("a lone surrogate", "a device"):  # which cannot be sent; which only root can make
            continue
        (tmp_path / str(number)).mkdir()
        yard = Yard(tmp_path / str(number))
        with yard.close:
            path = escape(yard)
            before = yard.snapshot()
            (code,) = await editor.burgle(yard, path)
            assert code in (-32602, -32002), name
            assert yard.snapshot() == before, name


async def test_an_agent_gets_everything_inside(tmp_path: Path, editor: Editor) -> None:
    yard = Yard(tmp_path)
    cases = legitimate(yard)
    assert await editor.burgle(yard, *cases) == [len(content) for content in cases.values()]
