"""What any engine of a gateway promises, tried on the one that is a file."""

import asyncio
import hashlib
import os
import sqlite3
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.gateway.log.engine import Conflict, EngineFailure, Fact, Fenced, LogEntry, StoredRecord
from dragoman.gateway.log.sqlite import SqliteEngine

OLDER = """
CREATE TABLE records (
    session TEXT NOT NULL, number INTEGER NOT NULL, epoch INTEGER NOT NULL, time REAL NOT NULL,
    origin TEXT NOT NULL, principal TEXT NOT NULL, client TEXT NOT NULL, frame BLOB NOT NULL,
    PRIMARY KEY (session, number)
) WITHOUT ROWID;
CREATE TABLE leases (name TEXT PRIMARY KEY, owner TEXT NOT NULL, epoch INTEGER NOT NULL, expires REAL NOT NULL);
CREATE TABLE facts (
    kind TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, revision INTEGER NOT NULL, PRIMARY KEY (kind, key)
) WITHOUT ROWID;
"""
OLDER_BLOBS = {
    1: "CREATE TABLE blobs (name TEXT PRIMARY KEY, data BLOB NOT NULL);",
    2: "CREATE TABLE blobs (session TEXT, name TEXT, data BLOB NOT NULL, PRIMARY KEY (session, name));",
}


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[SqliteEngine]:
    engine = SqliteEngine(tmp_path)
    yield engine
    await engine.close()


def entry(number: int) -> LogEntry:
    return LogEntry("agent", b'{"n":%d}' % number)


async def test_what_is_appended_is_read_back_byte_for_byte_and_in_order(engine: SqliteEngine) -> None:
    lease = await engine.acquire("s", "us", 60)
    frame = bytes(range(256))
    await engine.append(lease, [LogEntry("client", frame, "ann", "seat"), entry(2)], after=0)
    await engine.append(lease, [entry(3)], after=2)
    records = await engine.read("s")
    assert [record.number for record in records] == [1, 2, 3]
    assert records[0].entry == LogEntry("client", frame, "ann", "seat")
    assert [record.number for record in await engine.read("s", after=1, limit=1)] == [2]
    assert await engine.last("s") == 3
    assert await engine.last("another") == 0


async def test_appends_of_many_at_once_are_all_kept(engine: SqliteEngine) -> None:
    leases = [await engine.acquire(f"s{number}", "us", 60) for number in range(20)]
    for after in range(10):
        await asyncio.gather(*(engine.append(lease, [entry(after)], after) for lease in leases))
    for lease in leases:
        assert [record.number for record in await engine.read(lease.name)] == list(range(1, 11))


async def test_everything_is_there_after_opening_again(tmp_path: Path) -> None:
    first = SqliteEngine(tmp_path)
    lease = await first.acquire("s", "us", 60)
    await first.append(lease, [entry(1)], after=0)
    await first.put_fact("session", "s", b"x")
    await first.close()
    second = SqliteEngine(tmp_path)
    assert len(await second.read("s")) == 1
    assert (await second.fact("session", "s")).value == b"x"
    await second.close()


async def test_a_long_history_is_read_in_pieces(engine: SqliteEngine) -> None:
    lease = await engine.acquire("s", "us", 60)
    await engine.append(lease, [LogEntry("agent", b"x" * 600_000)] * 5, after=0)
    pieces = []
    while records := await engine.read("s", after=sum(pieces)):
        pieces.append(len(records))
    assert pieces == [2, 2, 1]


async def test_only_the_newest_holder_of_a_lease_appends(engine: SqliteEngine) -> None:
    old = await engine.acquire("s", "one", 0)
    new = await engine.acquire("s", "two", 60)
    assert new.epoch == old.epoch + 1
    with pytest.raises(Fenced):
        await engine.append(old, [entry(1)], after=0)
    with pytest.raises(Fenced):
        await engine.renew(old, 60)
    await engine.append(new, [entry(1)], after=0)
    assert len(await engine.read("s")) == 1


async def test_a_lease_that_is_held_is_nobody_elses(engine: SqliteEngine) -> None:
    lease = await engine.acquire("s", "one", 60)
    assert await engine.acquire("s", "two", 60) is None
    await engine.release(lease)
    assert (await engine.acquire("s", "two", 60)).epoch == lease.epoch + 1


async def test_an_append_in_the_wrong_place_is_refused_and_leaves_the_others_alone(engine: SqliteEngine) -> None:
    lease, other = await engine.acquire("s", "us", 60), await engine.acquire("t", "us", 60)
    outcomes = await asyncio.gather(
        engine.append(lease, [entry(5)], after=4), engine.append(other, [entry(1)], after=0), return_exceptions=True
    )
    assert isinstance(outcomes[0], Fenced)
    assert (await engine.last("s"), await engine.last("t")) == (0, 1)


async def test_listeners_hear_of_their_session_alone(engine: SqliteEngine) -> None:
    heard: list[str] = []
    end = engine.listen("s", lambda: heard.append("s"))
    engine.listen("t", lambda: heard.append("t"))
    lease = await engine.acquire("s", "us", 60)
    await engine.append(lease, [entry(1)], after=0)
    end()
    await engine.append(lease, [entry(2)], after=1)
    assert heard == ["s"]


async def test_a_fact_changed_by_somebody_else_is_a_conflict(engine: SqliteEngine) -> None:
    assert await engine.put_fact("session", "ann/1", b"a", revision=0) == 1
    with pytest.raises(Conflict):
        await engine.put_fact("session", "ann/1", b"b", revision=0)
    assert await engine.put_fact("session", "ann/1", b"b", revision=1) == 2
    await engine.put_fact("session", "anna/1", b"c")
    assert list(await engine.facts("session", "ann/")) == ["ann/1"]
    await engine.drop_fact("session", "ann/1")
    assert await engine.fact("session", "ann/1") is None


async def test_a_blob_is_found_by_its_hash(engine: SqliteEngine) -> None:
    data = os.urandom(600_000)
    name = await engine.put_blob("s", data)
    assert name == hashlib.sha256(data).hexdigest()
    assert b"".join([piece async for piece in engine.blob("s", name)]) == data
    with pytest.raises(EngineFailure):
        await anext(engine.blob("s", "unknown"))
    with pytest.raises(EngineFailure):
        await anext(engine.blob("another", name))


async def test_what_is_forgotten_is_found_nowhere(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path)
    lease = await engine.acquire("s", "us", 60)
    await engine.append(lease, [LogEntry("agent", b"watermark-%d" % n * 50) for n in range(200)], after=0)
    await engine.put_blob("s", b"watermark" * 1000)
    await engine.read("s")
    assert b"watermark" in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    await engine.forget("s")
    assert b"watermark" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    await engine.close()


async def test_a_file_of_a_newer_layout_is_refused_in_words(tmp_path: Path) -> None:
    await SqliteEngine(tmp_path / "new").close()
    with sqlite3.connect(tmp_path / "new" / "gateway.db") as db:
        db.execute("PRAGMA user_version = 99")
        db.execute("CREATE TABLE news (id)")
    db.close()
    with pytest.raises(EngineFailure, match="newer version"):
        SqliteEngine(tmp_path / "new")


async def test_a_file_that_is_no_database_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "gateway.db").write_bytes(b"no database" * 1000)
    engine = SqliteEngine(tmp_path)
    await engine.put_fact("session", "s", b"x")
    await engine.close()
    (kept,) = tmp_path.glob("damaged-*/gateway.db")
    assert kept.read_bytes() == b"no database" * 1000


@pytest.mark.parametrize("name", ["gateway.db", "gateway.db-wal", "gateway.tip"])
async def test_what_is_in_the_place_of_a_file_is_set_aside_whole(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "something").write_text("of somebody")
    engine = SqliteEngine(tmp_path)
    await engine.put_fact("session", "s", b"x")
    await engine.close()
    (kept,) = tmp_path.glob(f"not-ours-*/{name}/something")
    assert kept.read_text() == "of somebody"


@pytest.mark.parametrize("layout", [1, 2])
async def test_a_file_of_an_older_layout_is_brought_up_to_date_with_all_that_is_in_it(
    tmp_path: Path, layout: int
) -> None:
    frame = bytes(range(256))
    with sqlite3.connect(tmp_path / "gateway.db") as db:
        db.executescript(OLDER + OLDER_BLOBS[layout])
        db.execute("INSERT INTO records VALUES ('s', 1, 7, 1.5, 'agent', 'ann', 'seat', ?)", (frame,))
        db.execute("INSERT INTO facts VALUES ('session', 's', ?, 3)", (b"card",))
        db.execute("INSERT INTO leases VALUES ('s', 'us', 7, 0)")
        db.execute(f"PRAGMA user_version = {layout}")
        if layout == 2:
            db.execute("INSERT INTO blobs VALUES ('s', ?, ?)", (hashlib.sha256(b"large").hexdigest(), b"large"))
    db.close()
    engine = SqliteEngine(tmp_path)
    assert await engine.read("s") == [StoredRecord(1, 7, 1.5, LogEntry("agent", frame, "ann", "seat"))]
    assert await engine.fact("session", "s") == Fact(b"card", 3)
    lease = await engine.acquire("s", "us", 60)
    assert lease.epoch == 8
    await engine.append(lease, [entry(2)], after=1)
    name = await engine.put_blob("s", b"large")
    assert [piece async for piece in engine.blob("s", name)] == [b"large"]
    await engine.close()
    await SqliteEngine(tmp_path).close()
    assert not list(tmp_path.glob("damaged-*"))


async def test_nobody_else_may_read_the_log(engine: SqliteEngine) -> None:
    lease = await engine.acquire("s", "us", 60)
    await engine.append(lease, [entry(1)], after=0)
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in engine.path.parent.iterdir())
