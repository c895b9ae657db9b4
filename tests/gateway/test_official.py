"""The official SDK on either side of a gateway: its client before it, its agent behind it."""

import asyncio
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

from dragoman.errors import InternalError

from .house import House, hosting

acp = pytest.importorskip("acp")
websockets = pytest.importorskip("acp.ws.client")

AGENT = textwrap.dedent(
    """
    import asyncio
    import acp

    class Official(acp.Agent):
        def on_connect(self, client):
            self.client = client

        async def initialize(self, protocol_version, **rest):
            return acp.InitializeResponse(protocol_version=1)

        async def new_session(self, cwd, **rest):
            return acp.NewSessionResponse(session_id="the same for everybody")

        async def prompt(self, prompt, session_id, **rest):
            await self.client.session_update(session_id, acp.update_agent_message_text("said: " + prompt[-1].text))
            return acp.PromptResponse(stop_reason="end_turn")

    asyncio.run(acp.run_agent(Official()))
    """
)


class Editor(acp.Client):  # type: ignore[misc]
    """Keeps what it is told, and says yes."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.news = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **rest: Any) -> None:
        self.updates.append(update)
        self.news.set()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **rest: Any) -> Any:
        outcome = acp.schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return acp.RequestPermissionResponse(outcome=outcome)

    async def until_told(self, words: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while not any(words in str(update) for update in self.updates):
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def official(house: House, who: str = "ann") -> AsyncIterator[tuple[Any, Editor]]:
    wire = await websockets.create_websocket_stream(house.url(), headers=house.headers(who))
    editor = Editor()
    connection = acp.connect_to_agent(editor, wire)
    try:
        await connection.initialize(protocol_version=1)
        yield connection, editor
    finally:
        await connection.close()


async def test_the_official_client_prompts_answers_and_loads_through_a_gateway(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house:
        async with official(house) as (agent, editor), asyncio.timeout(PATIENCE):
            session = (await agent.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
            response = await agent.prompt(session_id=session, prompt=[acp.text_block("ask allow_once")])
            assert response.stop_reason == "end_turn"
            await editor.until_told("Allowed: allow_once")
        async with official(house) as (agent, editor), asyncio.timeout(PATIENCE):
            await agent.load_session(session_id=session, cwd=str(tmp_path), mcp_servers=[])
            await editor.until_told("Allowed: allow_once")


async def test_the_official_agent_is_hosted_for_people_it_cannot_tell_apart(tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text(AGENT)
    async with (
        hosting(tmp_path / "state", [sys.executable, str(script)]) as house,
        house.visit("ann") as ann,
        house.visit("bob") as bob,
        asyncio.timeout(PATIENCE),
    ):
        sessions = [await client.new_session(tmp_path) for client in (ann, bob)]
        assert sessions[0].id != sessions[1].id
        await asyncio.gather(*(_say(session, word) for session, word in zip(sessions, ("one", "two"), strict=True)))
        assert b"said: one" in b"".join(ann.told[sessions[0].id]) and sessions[1].id not in ann.told
        assert b"said: two" in b"".join(bob.told[sessions[1].id]) and sessions[0].id not in bob.told


async def test_an_agent_that_calls_two_sessions_the_same_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text(AGENT)
    async with hosting(tmp_path / "state", [sys.executable, str(script)]) as house, house.visit("ann") as ann:
        async with asyncio.timeout(PATIENCE):
            first = await ann.new_session(tmp_path)
            with pytest.raises(InternalError, match="the id of another"):
                await ann.new_session(tmp_path)
            await first.prompt("one")
        assert b"said: one" in b"".join(ann.told[first.id])


async def _say(session: Any, word: str) -> None:
    await session.prompt(word)
