"""Deleting beside those who go on: in small steps, to the end, and so that nothing is left."""

import asyncio
from pathlib import Path

from dragoman.gateway.log.engine import LogEntry
from dragoman.gateway.log.logs import append
from dragoman.gateway.log.sqlite import SqliteEngine

MIB = 1024 * 1024


async def test_a_large_session_is_deleted_while_others_are_written_and_the_disk_comes_back(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path)
    large, other = await engine.acquire("large", "us", 60), await engine.acquire("other", "us", 60)
    for after in range(0, 1600, 100):  # 40 MiB, and some beside the log
        await engine.append(large, [LogEntry("agent", b"watermark" * 2900)] * 100, after)
    await append(engine, large, [LogEntry("agent", b"watermark" * 100_000)] * 2, 1600)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) > 40 * MIB
    forgetting = asyncio.create_task(engine.forget("large"))
    written = 0
    while not forgetting.done():
        await engine.append(other, [LogEntry("agent", b"meanwhile")], written)
        written += 1
    await forgetting
    assert written > 40  # one between any two steps
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < MIB
    assert b"watermark" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert await engine.last("other") == written
    assert await engine.last("large") == 0
    await engine.close()


async def test_a_deletion_that_was_cut_short_is_known_and_can_be_finished(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path)
    lease = await engine.acquire("s", "us", 60)
    await engine.append(lease, [LogEntry("agent", b"watermark" * 2900)] * 200, 0)
    forgetting = asyncio.create_task(engine.forget("s"))
    while not await engine.marked_for_deletion():
        assert await engine.last("s")
    forgetting.cancel()
    await asyncio.wait([forgetting])
    await engine.close()
    engine = SqliteEngine(tmp_path)
    assert await engine.marked_for_deletion() == ["s"]
    await engine.forget("s")
    assert await engine.marked_for_deletion() == []
    assert b"watermark" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    await engine.close()
