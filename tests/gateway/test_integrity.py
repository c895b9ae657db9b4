"""A gateway whose files are changed, deleted or emptied: nothing is told as if it were what was said."""

import asyncio
import contextlib
import logging
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman import Error
from dragoman import schema as s
from dragoman.gateway.log.engine import EngineFailure, LogEntry
from dragoman.gateway.log.logs import append, records
from dragoman.gateway.log.sqlite import SqliteEngine

from .house import Watcher, hosting

pytestmark = pytest.mark.usefixtures("nothing_left")

FILE = "gateway.db"


def texts(frames: list[bytes]) -> str:
    return b"\n".join(frames).decode()


async def test_a_changed_byte_is_told_in_its_place_and_the_rest_as_it_was(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        for word in ("first-word", "second-word", "third-word"):
            await session.prompt(f"echo {word}")
        before = list(ann.told[session.id])
        tokens = house.tokens
    with contextlib.closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as db:
        spoil = "CAST(replace(CAST(frame AS TEXT), 'second-word', 'sEcond-word') AS BLOB)"
        db.execute(f"UPDATE records SET frame = {spoil} WHERE origin = 'agent'")
    async with hosting(tmp_path) as house:
        house.tokens = tokens
        async with house.visit() as ann:
            session = await ann.load_session(session.id, tmp_path)
            after = [frame for frame in ann.told[session.id] if b"user_message" not in frame]
            await session.prompt("echo fourth-word")
            assert "fourth-word" in texts(ann.told[session.id])
    assert len(after) == len(before)
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert all(b"second-word" in old and b"[Damaged: record " in new for old, new in changed)
    assert len(changed) == 1
    assert "sEcond" not in texts(after)


async def test_an_outcome_that_is_damaged_is_an_error_that_says_so(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.bare() as ann:
        opened = await ann.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        id = opened["result"]["sessionId"]
        text = [{"type": "text", "text": "hello"}]
        prompt = {"sessionId": id, "prompt": text, "_meta": {"dragoman.prompt": "once"}}
        assert (await ann.ask("session/prompt", prompt))["result"]["stopReason"] == "end_turn"
        tokens = house.tokens
    with contextlib.closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as db:
        spoil = "CAST(replace(CAST(frame AS TEXT), 'end_turn', 'END_TURN') AS BLOB)"
        db.execute(f"UPDATE records SET frame = {spoil}")
    async with hosting(tmp_path) as house:
        house.tokens = tokens
        async with house.bare() as ann:
            await ann.ask("session/load", {"sessionId": id, "cwd": str(tmp_path), "mcpServers": []})
            answer = await ann.ask("session/prompt", prompt)
            assert "log is damaged" in answer["error"]["message"]
            again = {**prompt, "_meta": {"dragoman.prompt": "twice"}}
            assert (await ann.ask("session/prompt", again))["result"]["stopReason"] == "end_turn"


async def test_a_changed_byte_beside_the_log_is_told_too(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path)
    lease = await engine.acquire("s", "us", 60)
    await append(engine, lease, [LogEntry("agent", b"watermark" * 100_000), LogEntry("agent", b"small")], 0)
    await engine.close()
    file = tmp_path / FILE
    file.write_bytes(file.read_bytes().replace(b"watermark", b"waterMark", 1))
    engine = SqliteEngine(tmp_path)
    found = [record async for record in records(engine, "s")]
    await engine.close()
    assert [record.is_whole for record in found] == [False, True]
    assert b"[Damaged: record 1 " in found[0].entry.frame


async def test_a_record_that_is_gone_is_missed(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path)
    lease = await engine.acquire("s", "us", 60)
    await engine.append(lease, [LogEntry("agent", b"%d" % number) for number in range(1, 10)], 0)
    await engine.close()
    with contextlib.closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as db:
        db.execute("DELETE FROM records WHERE number IN (1, 4, 5, 9)")
    engine = SqliteEngine(tmp_path)
    found = [record for after in (0, 3, 6) for record in await engine.read("s", after, 3)]
    await engine.close()
    assert [record.number for record in found] == list(range(1, 10))
    assert [record.number for record in found if not record.is_whole] == [1, 4, 5, 9]


@pytest.mark.parametrize("names", [[FILE], [FILE, f"{FILE}-wal", f"{FILE}-shm"]])
async def test_a_file_deleted_under_a_running_gateway_is_written_again(tmp_path: Path, names: list[str]) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        await session.prompt("echo before")
        for name in names:
            (tmp_path / name).unlink()
        with _expecting("deleted or emptied while it was in use"):
            await session.prompt("echo after")
        told, tokens = list(ann.told[session.id]), house.tokens
    async with hosting(tmp_path) as house:
        house.tokens = tokens
        async with house.visit() as ann:
            await ann.load_session(session.id, tmp_path)
            assert [frame for frame in ann.told[session.id] if b"user_message" not in frame] == told
    assert not list(tmp_path.glob("damaged-*"))


async def test_a_file_emptied_under_a_running_gateway_is_noticed_and_new_sessions_go_on(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        await session.prompt("echo before")
        with _expecting("deleted or emptied while it was in use"):
            (tmp_path / FILE).write_bytes(b"")
            async with asyncio.timeout(PATIENCE):  # its log is what was lost, but the prompt has an outcome
                (outcome,) = await asyncio.gather(session.prompt("echo after"), return_exceptions=True)
            assert isinstance(outcome, Error | s.PromptResponse), outcome
            async with house.visit(client=Watcher()) as bob:
                another = await bob.new_session(tmp_path)
                await another.prompt("echo anew")
                assert "anew" in texts(bob.told[another.id])
    assert list(tmp_path.glob("damaged-*"))


async def test_no_flipped_bit_is_told_as_if_it_had_been_said(tmp_path: Path) -> None:
    await flip_bits(tmp_path, 120)


async def flip_bits(directory: Path, count: int) -> None:
    """Flip bits all over a small log, most in the first page: each record is as it was, or says that it is not."""
    said = {
        f"s{session}": [b'{"said":"%d.%d"}' % (session, number) for number in range(20)] for session in range(3)
    }
    engine = SqliteEngine(directory)
    for session, frames in said.items():
        await engine.append(
            await engine.acquire(session, "us", 60), [LogEntry("agent", frame) for frame in frames], 0
        )
        await engine.put_fact("session", session, value=b"card of " + session.encode())
    await engine.close()
    data, tip = (directory / FILE).read_bytes(), (directory / "gateway.tip").read_bytes()
    steps = max(1, 4096 * 2 // count), max(1, len(data) * 2 // count)
    for place in sorted({*range(16, 24), *range(0, 4096, steps[0]), *range(4096, len(data), steps[1])}):
        copy = directory / str(place)
        copy.mkdir()
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        (copy / FILE).write_bytes(flipped)
        (copy / "gateway.tip").write_bytes(tip)
        engine = SqliteEngine(copy)
        whole = 0
        for session, frames in said.items():
            found = await engine.read(session)
            kept = [one for one in found if one.is_whole]
            assert [one.entry.frame for one in kept] == [frames[one.number - 1] for one in kept], place
            assert [one.number for one in found] == list(range(1, 21)), place
            whole += sum(one.is_whole for one in found)
            with contextlib.suppress(EngineFailure):
                assert (await engine.fact("session", session)).value == b"card of " + session.encode(), place
        assert whole >= 59, f"byte {place}: {whole} of 60 records"
        lease = await engine.acquire("new", "us", 60)
        await engine.append(lease, [LogEntry("agent", b"on")], 0)
        await engine.close()
        shutil.rmtree(copy)


@contextlib.contextmanager
def _expecting(words: str) -> Iterator[None]:
    """Something is to be in our log that is an error."""
    seen: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record.getMessage())

    handler, log = Handler(), logging.getLogger("dragoman")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
    assert words in "\n".join(seen)
