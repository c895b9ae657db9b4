"""The layout of the database: steps from one version to the next, and versions of the future."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from dragoman import connect
from dragoman import schema as s
from dragoman.errors import InternalError
from dragoman.store import Store, durable
from dragoman.store.database import connecting, migrations
from dragoman.store.database.database import Database
from dragoman.store.places import is_remote

from .conftest import Notebook

LAYOUTS = Path(__file__).parent / "layouts"  # a dump of a store each, as it was made then


async def kept(path: Path) -> str:
    async with connect(durable(Notebook, Store(path))) as client:
        session = await client.new_session()
        await session.prompt("say kept")
        return session.id


async def texts(path: Path, id: str) -> list[str]:
    async with connect(durable(Notebook, Store(path))) as client:
        told = (await client.load_session(id)).backlog()
        return [update.content.text for update in told if isinstance(update, s.AgentMessageChunk)]  # type: ignore[union-attr]


async def test_a_store_of_an_older_layout_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await kept(tmp_path)
    monkeypatch.setattr(migrations, "STEPS", (*migrations.STEPS, "ALTER TABLE sessions ADD COLUMN colour TEXT"))
    assert await texts(tmp_path, id) == ["kept"]
    db = sqlite3.connect(tmp_path / "sessions.db")
    assert db.execute("PRAGMA user_version").fetchone() == (2,)
    assert db.execute("SELECT colour FROM sessions").fetchall() == [(None,)]
    db.close()
    assert not list(tmp_path.glob("before-*"))


@pytest.mark.parametrize("layout", range(1, len(migrations.STEPS) + 1))
async def test_stores_of_every_layout_there_ever_was_are_told_whole(tmp_path: Path, layout: int) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "sessions.db")) as db:
        db.executescript((LAYOUTS / f"{layout}.sql").read_text())
    async with connect(durable(Notebook, Store(tmp_path))) as client:
        (listed,) = await client.list_sessions()
        assert (listed.title, listed.cwd) == ("A title", "/")
        session = await client.load_session(listed.session_id)
        kinds = [type(update) for update in session.backlog()]
        assert s.AgentThoughtChunk in kinds and s.ToolCall in kinds and s.Plan in kinds
        assert session.modes and session.modes.current_mode_id == "code"
        told = [event async for event in session.prompt("recall")]
        assert "say more" in told[0].content.text  # type: ignore[union-attr]
    with contextlib.closing(Database(tmp_path)) as kept:
        assert list(kept.verify()) == []


@pytest.mark.parametrize(
    "step",
    ["DELETE FROM records", "UPDATE records SET crc = crc + 1", "ALTER TABLE nothing ADD COLUMN colour TEXT"],
)
async def test_a_step_that_fails_or_loses_something_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    id = await kept(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "STEPS", (*migrations.STEPS, step))
        with pytest.raises(InternalError):
            await texts(tmp_path, id)
    assert await texts(tmp_path, id) == ["kept"]


async def test_a_store_of_a_later_version_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    id = await kept(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "STEPS", (*migrations.STEPS, "ALTER TABLE sessions ADD COLUMN colour TEXT"))
        await texts(tmp_path, id)
    before = (tmp_path / "sessions.db").read_bytes()
    with pytest.raises(InternalError, match="newer Dragoman"):
        await texts(tmp_path, id)
    assert (tmp_path / "sessions.db").read_bytes() == before


def test_an_ordinary_directory_is_not_on_the_network(tmp_path: Path) -> None:
    assert not is_remote(tmp_path)


async def test_on_a_network_disk_there_is_no_log_beside_the_database_and_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connecting, "is_remote", lambda path: True)
    async with connect(durable(Notebook, Store(tmp_path))) as client:
        session, doomed = await client.new_session(), await client.new_session()
        await session.prompt("say kept")
        await doomed.prompt("say watermark")
        await doomed.delete()
        contents = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert not (tmp_path / "sessions.db-wal").exists()
        assert b"kept" in contents
        assert b"watermark" not in contents
    assert "network disk" in caplog.text
    assert await texts(tmp_path, session.id) == ["kept"]


async def test_a_store_may_be_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "what? #1 100%20 'é'"
    assert await texts(path, await kept(path)) == ["kept"]
