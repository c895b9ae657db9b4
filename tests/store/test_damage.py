"""Stores with damaged files."""

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest
from torture.store_damage import damage_stores
from torture.store_flips import flip_bytes
from torture.workers import share_out

from dragoman import connect
from dragoman import schema as s
from dragoman.errors import InternalError
from dragoman.store import Store, durable
from dragoman.store.database.database import Database

from .conftest import Notebook


def test_200_damaged_stores_are_never_blank_and_never_silent() -> None:
    counts = share_out(damage_stores, 200, 63)
    print(dict(counts))
    assert counts["whole"] > 400
    assert counts["damaged, and said so"] > 20


def test_no_flipped_bit_locks_anybody_out_or_takes_more_than_one_session() -> None:
    counts = share_out(flip_bytes, 160, 21)
    print(dict(counts))
    assert counts["whole"] > 400
    assert counts["not verified"] > 20


async def test_a_damaged_store_that_another_process_uses_is_left_alone(tmp_path: Path) -> None:
    id = await kept(tmp_path)
    other = Database(tmp_path)
    spoil(tmp_path)
    before = (tmp_path / "sessions.db").read_bytes()
    async with connect(durable(Notebook, Store(tmp_path))) as client:
        with pytest.raises(InternalError, match="in use by another process"):
            await client.load_session(id)
    assert (tmp_path / "sessions.db").read_bytes() == before
    other.close()
    async with connect(durable(Notebook, Store(tmp_path))) as client:
        texts = [
            u.content.text for u in (await client.load_session(id)).backlog() if isinstance(u, s.AgentMessageChunk)
        ]
    assert texts[0] == "kept"


async def test_what_damage_took_is_named_where_it_was_and_in_the_answer(tmp_path: Path) -> None:
    async with connect(durable(Notebook, Store(tmp_path))) as client:
        session = await client.new_session("/")
        for word in ("one", "two", "three"):
            await session.prompt(f"say {word}")
    file = tmp_path / "sessions.db"
    file.write_bytes(file.read_bytes().replace(b'"text":"two"', b'"text":"owt"'))
    async with connect(durable(Notebook, Store(tmp_path))) as client:
        request = s.LoadSessionRequest(session_id=session.id, cwd="/", mcp_servers=[])
        answer = await client.agent.load_session(request)
        texts = [u.content.text for u in client.session(session.id).backlog() if isinstance(u, s.AgentMessageChunk)]
        (damage,) = (answer.meta or {})["dragoman"]["damaged"]
        assert "record" in damage
        assert texts[0] == "one"
        assert "amaged" in texts[1] and damage in texts[1]
        assert texts[2] == "three"
        assert damage in texts[3]
        forked = await client.fork_session(session.id, "/")
        assert (await forked.prompt("say on")).stop_reason == "end_turn"


async def test_damaged_files_do_not_pile_up_for_ever(tmp_path: Path) -> None:
    id = await kept(tmp_path)
    for _ in range(10):
        spoil(tmp_path)
        with contextlib.closing(Database(tmp_path)) as db:
            assert [summary.id for summary in db.summaries()] == [id]
    assert len(list(tmp_path.glob("damaged-*"))) == 8


async def test_a_damaged_state_is_told_and_the_rest_of_it_comes_back(tmp_path: Path) -> None:
    id = await kept(tmp_path)
    file = tmp_path / "sessions.db"
    file.write_bytes(file.read_bytes().replace(b'["say kept"]', b'["say kapt"]'))
    async with connect(durable(Notebook, Store(tmp_path))) as client:
        request = s.LoadSessionRequest(session_id=id, cwd="/", mcp_servers=[])
        answer = await client.agent.load_session(request)
        assert (answer.meta or {})["dragoman"]["damaged"] == ["the agent's own note 'prompts' (damaged)"]
        texts = [u.content.text for u in client.session(id).backlog() if isinstance(u, s.AgentMessageChunk)]
        assert texts[0] == "kept"
        assert "'prompts'" in texts[1]


async def test_a_state_that_is_gone_is_missed(tmp_path: Path) -> None:
    id = await kept(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "sessions.db", isolation_level=None)) as db:
        db.execute("DELETE FROM states")
    with contextlib.closing(Database(tmp_path)) as damaged:
        assert list(damaged.verify()) == [(id, "1 of the agent's own notes (missing)")]


async def test_a_store_of_which_nothing_is_left_says_so(tmp_path: Path) -> None:
    id = await kept(tmp_path)
    (tmp_path / "sessions.db").write_bytes(b"something else" * 1000)
    async with connect(durable(Notebook, Store(tmp_path))) as client:
        assert await client.list_sessions() == []
        with pytest.raises(InternalError, match=r"Session corrupted.*damaged-"):
            await client.load_session(id)
        await (await client.new_session("/")).prompt("say anew")


@pytest.mark.parametrize(
    "failure", [UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), KeyError("x"), IndexError(), ValueError()]
)
async def test_whatever_error_a_damaged_file_leads_to_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    """A flipped bit may show as any exception, where SQLite itself finds nothing wrong."""
    id = await kept(tmp_path)
    prepare, damaged = Database._prepare, (tmp_path / "sessions.db").stat().st_ino

    def failing(self: Database) -> None:
        if self.file.stat().st_ino == damaged:
            raise failure
        prepare(self)

    monkeypatch.setattr(Database, "_prepare", failing)
    async with connect(durable(Notebook, Store(tmp_path))) as client:
        assert [one.session_id for one in await client.list_sessions()] == [id]
        assert await client.load_session(id)


@pytest.mark.parametrize("kind", ["directory", "pipe"])
@pytest.mark.parametrize("suffix", ["-wal", "-journal", "-shm"])
async def test_what_is_no_file_beside_the_database_is_set_aside_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, suffix: str, kind: str
) -> None:
    id = await kept(tmp_path)
    in_the_way(tmp_path / f"sessions.db{suffix}", kind)
    async with connect(durable(Notebook, Store(tmp_path))) as client:
        assert await client.load_session(id)
    [aside] = tmp_path.glob(f"not-ours-*/sessions.db{suffix}")
    assert aside.is_fifo() if kind == "pipe" else (aside / "something").read_text() == "of somebody"
    assert f"sessions.db{suffix} is no file of ours" in caplog.text


@pytest.mark.parametrize("kind", ["directory", "pipe"])
@pytest.mark.parametrize("name", ["sessions.db", "tip", "rebuilt.db", "rebuilt.db-wal"])
async def test_what_is_in_the_place_of_a_stores_file_is_set_aside_and_sessions_go_on(
    tmp_path: Path, name: str, kind: str
) -> None:
    id = await kept(tmp_path)
    if name in ("sessions.db", "tip"):
        (tmp_path / name).rename(tmp_path / "away")
    in_the_way(tmp_path / name, kind)
    async with connect(durable(Notebook, Store(tmp_path))) as client:
        await (await client.new_session("/")).prompt("say anew")
        if name == "sessions.db":
            with pytest.raises(InternalError, match="Session corrupted"):  # it is missed, not unknown
                await client.load_session(id)
        else:
            assert await client.load_session(id)
    (tmp_path / "sessions.db").unlink()
    async with connect(durable(Notebook, Store(tmp_path))):
        pass
    [aside] = tmp_path.glob(f"not-ours-*/{name}")
    assert aside.is_fifo() if kind == "pipe" else (aside / "something").read_text() == "of somebody"


async def test_what_is_in_the_way_stays_while_another_process_uses_the_store(tmp_path: Path) -> None:
    id = await kept(tmp_path)
    with contextlib.closing(Database(tmp_path)):
        (tmp_path / "sessions.db").rename(tmp_path / "away")
        in_the_way(tmp_path / "sessions.db", "directory")
        async with connect(durable(Notebook, Store(tmp_path))) as client:
            with pytest.raises(InternalError, match="in use by another process"):
                await client.load_session(id)
        assert (tmp_path / "sessions.db" / "something").exists()


def in_the_way(path: Path, kind: str) -> None:
    """Put something in the place of a file that is none."""
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
        (path / "something").write_text("of somebody")


async def kept(path: Path) -> str:
    async with connect(durable(Notebook, Store(path))) as client:
        session = await client.new_session("/")
        await session.prompt("say kept")
        return session.id


def spoil(path: Path) -> None:
    """Make the database one that SQLite cannot read."""
    data = bytearray((path / "sessions.db").read_bytes())
    data[:100] = b"?" * 100
    (path / "sessions.db").write_bytes(data)


async def test_a_rebuilding_that_was_cut_short_is_finished(tmp_path: Path) -> None:
    id = await kept(tmp_path)
    (tmp_path / "sessions.db").rename(tmp_path / "rebuilt.db")
    (tmp_path / "sessions.db-wal").write_bytes(b"of the damaged one")
    async with connect(durable(Notebook, Store(tmp_path))) as client:
        assert [one.session_id for one in await client.list_sessions()] == [id]
    (tmp_path / "rebuilt.db").write_bytes(b"half")
    async with connect(durable(Notebook, Store(tmp_path))) as client:
        assert [one.session_id for one in await client.list_sessions()] == [id]
    assert not (tmp_path / "rebuilt.db").exists()
