"""Writes that fail, that wait, and that must not happen: what goes out meanwhile, and what stays as it was."""

import asyncio
import contextlib
import threading
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman import Agent, Turn, connect
from dragoman import schema as s
from dragoman.errors import InternalError
from dragoman.store import Store, durable
from dragoman.store.database import locks
from dragoman.store.database.locks import Lock
from dragoman.store.errors import StoreFailure
from dragoman.store.outbox import ROOM, Outbox, frame_of
from dragoman.transports.memory import pipe

pytestmark = pytest.mark.usefixtures("nothing_left")


async def test_what_another_session_says_goes_out_when_an_update_cannot_be_stored(store: Store) -> None:
    """Both are sent at the same moment, so they wait for the same commit."""

    class Whispering(Agent):
        async def answer(self, turn: Turn) -> None:
            kept = s.AgentMessageChunk(content=s.TextContent(text="x" * 300_000))
            passing = s.Notice(severity="info", title="elsewhere")
            turn.client.update(s.SessionNotification(session_id=turn.session.id, update=kept))
            turn.client.update(s.SessionNotification(session_id=turn.text, update=passing))

    async with connect(durable(Whispering, store)) as client, asyncio.timeout(PATIENCE):
        one, other = await client.new_session(), await client.new_session()
        await store.run(lambda db: db.db.execute("PRAGMA max_page_count = 1").fetchall())
        with pytest.raises(InternalError, match="full"):
            await one.prompt(other.id)
        assert [update for update in one.backlog() if isinstance(update, s.AgentMessageChunk)] == []
        assert [update.title for update in other.backlog() if isinstance(update, s.Notice)] == ["elsewhere"]


async def test_a_sender_waits_while_more_is_to_be_stored_than_there_is_room_for(tmp_path: Path) -> None:
    may_go_on, ours = threading.Event(), pipe()
    heard: list[bytes] = []
    ours[1].listen(heard.extend, lambda: None)  # type: ignore[arg-type]
    frames = [frame_of(b"s", b'{"sessionUpdate":"x","text":"%s"}' % (b"y" * 1024))] * (ROOM // 1024)
    async with Store(tmp_path) as store, asyncio.timeout(PATIENCE):
        outbox = Outbox(ours[0], store, lambda id: None)
        outbox.keep("s")
        held_up = asyncio.create_task(store.run(lambda db: may_go_on.wait(PATIENCE)))
        try:
            outbox.send(frames)
            assert outbox.queued > ROOM
            draining = asyncio.create_task(outbox.drain())
            for _ in range(10):
                await asyncio.sleep(0)
            assert not draining.done()
            assert heard == []
        finally:
            may_go_on.set()
        await held_up
        await draining
        assert outbox.queued <= ROOM
        await outbox.close()
    assert heard == frames


async def test_nothing_is_written_while_another_process_has_the_lock(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []
    await store.run(lambda db: None)
    with contextlib.closing(Lock(store.path / "lock")) as others:
        with others.held(), monkeypatch.context() as patch:
            patch.setattr(locks, "PATIENCE", 0.01)
            with pytest.raises(StoreFailure, match="another process keeps"):
                await store.commit(lambda db: done.append("too early"))
        await store.commit(lambda db: done.append("in turn"))
    assert done == ["in turn"]


@pytest.mark.parametrize("name", ["lock", "presence", "tip"])
async def test_a_link_in_the_place_of_a_stores_file_makes_no_file_elsewhere(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / name).symlink_to(outside)
    async with Store(tmp_path / "store") as store:
        with pytest.raises(StoreFailure, match="symbolic links"):
            await store.run(lambda db: None)
    assert not outside.exists()


async def test_a_tool_that_an_interrupted_turn_left_running_has_failed_when_it_is_told_again(store: Store) -> None:
    class Working(Agent):
        async def answer(self, turn: Turn) -> None:
            async with turn.tool("Long work", kind="execute"):
                await asyncio.Event().wait()

    working = durable(Working, store)
    async with connect(working) as client, asyncio.timeout(PATIENCE):
        session = await client.new_session()
        async for update in session.prompt("work"):
            if isinstance(update, s.ToolCall):
                break
    async with connect(working) as client, asyncio.timeout(PATIENCE):
        told = [*(await client.load_session(session.id)).backlog()]
    (last,) = [update for update in told if isinstance(update, s.ToolCallUpdated)]
    assert last.status == "failed"
    assert "not run again" in str(last.content)
