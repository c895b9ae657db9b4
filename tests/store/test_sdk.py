"""The official SDK's client lists, loads, resumes and forks the sessions of an agent of ours, across processes."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

acp = pytest.importorskip("acp", reason="the official SDK is not installed (PyPI: agent-client-protocol)")

AGENT = """
import sys
from dragoman import serve
from dragoman.store import Store, durable
from store.conftest import Notebook
serve(durable(Notebook, Store(sys.argv[1])))
"""


class Editor(acp.Client):  # type: ignore[misc]
    def __init__(self) -> None:
        self.texts: list[tuple[str, str]] = []
        self._news = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        if hasattr(update, "content") and hasattr(update.content, "text"):
            self.texts.append((update.session_update, update.content.text))
        self._news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """The SDK runs the handlers of updates on their own, behind the response."""
        while not condition():
            self._news.clear()
            await self._news.wait()


@asynccontextmanager
async def started(store: Path) -> AsyncIterator[tuple[Any, Editor]]:
    editor = Editor()
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    async with (
        asyncio.timeout(20),
        acp.spawn_agent_process(
            editor, sys.executable, "-c", AGENT, str(store), env=env, use_unstable_protocol=True
        ) as (connection, _),
    ):
        initialized = await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
        assert initialized.agent_capabilities.load_session
        assert initialized.agent_capabilities.session_capabilities.list is not None
        yield connection, editor


async def test_the_sdk_finds_everything_again_in_another_process(tmp_path: Path) -> None:
    async with started(tmp_path / "store") as (connection, _):
        session = await connection.new_session(cwd="/tmp", mcp_servers=[])
        prompt = [acp.text_block("say one\nthink two\nsay three")]
        await connection.prompt(session_id=session.session_id, prompt=prompt)
    async with started(tmp_path / "store") as (connection, editor):
        (listed,) = (await connection.list_sessions()).sessions
        assert (listed.session_id, listed.title, listed.cwd) == (session.session_id, "say one", "/tmp")
        loaded = await connection.load_session(cwd="/tmp", session_id=session.session_id, mcp_servers=[])
        assert loaded.modes.current_mode_id == "ask"
        await editor.until(lambda: len(editor.texts) == 4)
        assert editor.texts == [
            ("user_message_chunk", "say one\nthink two\nsay three"),
            ("agent_message_chunk", "one"),
            ("agent_thought_chunk", "two"),
            ("agent_message_chunk", "three"),
        ]
        forked = await connection.fork_session(cwd="/tmp", session_id=session.session_id)
        await connection.prompt(session_id=forked.session_id, prompt=[acp.text_block("recall")])
        await editor.until(lambda: len(editor.texts) == 5)
        assert "say one" in editor.texts[-1][1]
    async with started(tmp_path / "store") as (connection, editor):
        await connection.resume_session(cwd="/tmp", session_id=session.session_id)
        assert editor.texts == []
        assert len((await connection.list_sessions()).sessions) == 2
        with pytest.raises(acp.RequestError, match="Session not found"):
            await connection.load_session(cwd="/tmp", session_id="sess_nobody", mcp_servers=[])
