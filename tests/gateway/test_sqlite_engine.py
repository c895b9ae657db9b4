"""The engine that is a file: what it promises beyond `test_engine.py`."""

import hashlib
import sqlite3
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from msgspec import Raw

from dragoman.gateway.log.engine import EngineFailure, Fact, LogEntry, StoredRecord
from dragoman.gateway.log.records import PromptEnded, QuestionAsked, own_frame
from dragoman.gateway.log.sqlite import SqliteEngine
from dragoman.gateway.log.summary import LogSummary

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


async def test_everything_is_there_after_opening_again(tmp_path: Path) -> None:
    first = SqliteEngine(tmp_path)
    lease = await first.acquire("s", "us", 60)
    await first.append(lease, [entry(1)], after=0)
    await first.put_fact("session", "s", value=b"x")
    await first.close()
    second = SqliteEngine(tmp_path)
    assert len(await second.read("s")) == 1
    assert (await second.fact("session", "s")).value == b"x"
    await second.close()


async def test_what_is_forgotten_is_found_nowhere(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path)
    lease = await engine.acquire("s", "us", 60)
    await engine.append(lease, [LogEntry("agent", b"watermark-%d" % n * 50) for n in range(200)], after=0)
    await engine.put_blob(lease, b"watermark" * 1000)
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
    await engine.put_fact("session", "s", value=b"x")
    await engine.close()
    (kept,) = tmp_path.glob("damaged-*/gateway.db")
    assert kept.read_bytes() == b"no database" * 1000


@pytest.mark.parametrize("name", ["gateway.db", "gateway.db-wal", "gateway.tip"])
async def test_what_is_in_the_place_of_a_file_is_set_aside_whole(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "something").write_text("of somebody")
    engine = SqliteEngine(tmp_path)
    await engine.put_fact("session", "s", value=b"x")
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
    name = await engine.put_blob(lease, b"large")
    assert [piece async for piece in engine.blob("s", name)] == [b"large"]
    await engine.close()
    await SqliteEngine(tmp_path).close()
    assert not list(tmp_path.glob("damaged-*"))


async def test_a_lease_of_a_dead_process_is_free_when_it_is_over_though_the_clock_went_back(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = time.time
    await engine.acquire("s", "before", 15)
    assert await engine.acquire("s", "after", 15) is None
    monkeypatch.setattr(time, "time", lambda: clock() - 3600)
    assert await engine.acquire("s", "after", 15)
    assert await engine.acquire("s", "another", 15) is None


async def test_nobody_else_may_read_the_log(engine: SqliteEngine) -> None:
    lease = await engine.acquire("s", "us", 60)
    await engine.append(lease, [entry(1)], after=0)
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in engine.path.parent.iterdir())


async def test_a_summary_of_thousands_of_prompts_is_a_small_fact() -> None:
    summary = LogSummary()
    asked = QuestionAsked("q", "session/request_permission", Raw(b'"' + b"x" * 1_000_000 + b'"'))
    summary.add(1, [LogEntry("agent", own_frame(asked))])
    for number in range(2, 6000):
        summary.add(number, [LogEntry("gateway", own_frame(PromptEnded(f"ann/{number}{'x' * 200}")))])
    data = msgspec.json.encode(summary)
    assert len(data) < 200_000
    again = LogSummary.read([data], summary.at)
    assert again.questions == {"q": "session/request_permission"}
    assert again.outcome_of(f"ann/5999{'x' * 200}") == 5999
    assert again.outcome_of("ann/2" + "x" * 200) is None  # the oldest of more than are kept
