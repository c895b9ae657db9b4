"""What a gateway keeps, and for how long."""

import asyncio
import contextlib
import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.errors import Overloaded
from dragoman.gateway.access.limits import Limits
from dragoman.gateway.log.engine import LogEntry
from dragoman.gateway.log.retention import Expired, KeptSession, Retention, expired
from dragoman.gateway.log.session_facts import SessionFacts
from dragoman.gateway.log.sqlite import SqliteEngine

from .house import hosting
from .test_commands import said, served

pytestmark = pytest.mark.usefixtures("nothing_left")

DAY = 86400.0


def kept(*ages: float, who: str = "ann", size: int = 10, is_open: bool = False) -> list[KeptSession]:
    return [KeptSession(f"{who}{age:g}", who, -age, size, is_open) for age in ages]


def gone(found: list[Expired]) -> list[tuple[str, str]]:
    return [(one.session, one.reason) for one in found]


def test_what_goes_goes_by_age_count_and_bytes_the_oldest_first_and_for_each_principal_alone() -> None:
    everybody = [*kept(1, 2, 3, 4), *kept(1, 9, who="bob")]
    assert gone(expired(everybody, Retention(), now=0)) == []
    assert gone(expired(everybody, Retention(seconds=3), now=0)) == [("bob9", "age"), ("ann4", "age")]
    assert gone(expired(everybody, Retention(sessions=2), now=0)) == [("ann4", "count"), ("ann3", "count")]
    assert gone(expired(everybody, Retention(bytes=25), now=0)) == [("ann4", "bytes"), ("ann3", "bytes")]
    both = Retention(seconds=3.5, sessions=2)
    assert gone(expired(kept(1, 2, 3, 4), both, now=0)) == [("ann4", "age"), ("ann3", "count")]


def test_an_open_session_counts_and_stays() -> None:
    everything = [*kept(9, is_open=True), *kept(1, 2)]
    assert gone(expired(everything, Retention(seconds=5), now=0)) == []
    assert gone(expired(everything, Retention(sessions=1), now=0)) == [("ann2", "count"), ("ann1", "count")]
    assert gone(expired(everything, Retention(bytes=20), now=0)) == [("ann2", "bytes")]


async def grown(state: Path, **ages: float) -> None:
    """A log with a session for each name, last used so many days ago; its principal is the name's first letter."""
    engine = SqliteEngine(state)
    for name, age in ages.items():
        lease = await engine.acquire(name, "us", 0)
        await engine.append(lease, [LogEntry("agent", b'{"watermark":"%s"}' % name.encode())] * 3, 0)
        used = time.time() - age * DAY
        facts = SessionFacts("testy", name[0], "/", msgspec.Raw(b"{}"), updated=used, bytes=1000)
        await engine.put_fact("session", name, value=msgspec.json.encode(facts))
        await engine.put_fact("seat", name[0], name, value=b"")
    await engine.close()


async def left(state: Path) -> list[str]:
    engine = SqliteEngine(state)
    ids = [id async for (id,), _ in engine.facts("session")]
    await engine.close()
    return sorted(ids)


def lines(text: str) -> list[tuple[str, str]]:
    return [(one["session"], one["reason"]) for one in map(json.loads, text.splitlines())]


async def test_sessions_expire_by_command_beside_a_running_gateway_and_without_one(tmp_path: Path) -> None:
    state = tmp_path / "state"
    await grown(state, a1=1, a2=40, a3=90, b1=50)
    where = ("--state", str(state))
    dry = await said("gateway", "expire", *where, "--keep-days", "30", "--dry-run")
    assert lines(dry) == [("a3", "age"), ("b1", "age"), ("a2", "age")]
    assert await left(state) == ["a1", "a2", "a3", "b1"]
    assert lines(await said("gateway", "expire", *where, "--keep-days", "60")) == [("a3", "age")]
    async with served(state):
        dry = await said("gateway", "expire", *where, "--keep-days", "30", "--dry-run")
        assert lines(dry) == [("b1", "age"), ("a2", "age")]
        only = await said("gateway", "expire", *where, "--keep-days", "30", "--principal", "b")
        assert lines(only) == [("b1", "age")]
        assert lines(await said("gateway", "expire", *where, "--keep-bytes", "1K")) == [("a2", "bytes")]
    assert await left(state) == ["a1"]
    found = b"".join(path.read_bytes() for path in state.glob("gateway.db*"))
    assert b"a1" in found
    assert not any(b'"watermark":"%s"' % name in found for name in (b"a2", b"a3", b"b1"))


async def test_a_gateway_deletes_what_is_beyond_its_retention_and_what_was_half_deleted(tmp_path: Path) -> None:
    await grown(tmp_path, a1=1, a2=40, b1=50, b2=1)
    engine = SqliteEngine(tmp_path)
    for id in ("b1", "b2"):
        await engine.mark_for_deletion(id)  # as a deletion leaves it that was cut short at its beginning
    await engine.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "gateway.db", isolation_level=None)) as db:
        db.execute("UPDATE facts SET value = ? WHERE kind = 'session' AND key = 'b2'", (b"damaged",))
    async with hosting(tmp_path, people=("a",), retention=Retention(seconds=30 * DAY)) as house:
        await house.gateway.expiry.clear_away()
        assert [key async for key, _ in house.gateway.engine.facts("session")] == [("a1",)]
        assert [key async for key, _ in house.gateway.engine.facts("seat")] == [("a", "a1")]
        assert 'expired_total{reason="age"} 1' in house.gateway.metrics.text()
        async with house.visit("a") as ann:
            assert [one.session_id for one in await ann.list_sessions()] == ["a1"]


async def test_who_keeps_too_much_is_told_what_helps_and_a_retention_makes_room(tmp_path: Path) -> None:
    limits = Limits(kept_each=3)
    await grown(tmp_path, a1=1, a2=40, a3=50)
    async with hosting(tmp_path, people=("a",), limits=limits) as house, house.visit("a") as ann:
        with pytest.raises(
            Overloaded, match="the limit kept_each is reached: 3 kept sessions of one principal; delete some, or"
        ):
            await ann.new_session(tmp_path)
        tokens = house.tokens
    async with hosting(tmp_path, limits=limits, retention=Retention(seconds=45 * DAY)) as house:
        house.tokens = tokens
        async with house.visit("a") as ann:
            session = await ann.new_session(tmp_path)
            assert (await session.prompt("hello")).stop_reason == "end_turn"


async def test_a_session_used_since_it_was_looked_at_is_kept(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house:
        async with house.visit() as ann:
            session = await ann.new_session(tmp_path)
            await session.prompt("hello")
            assert [one async for one in house.gateway.expiry.expire(Retention(sessions=0))] == []
            await ann.agent.close_session(_closing(session.id))
        expiring = house.gateway.expiry.expire(Retention(bytes=1), is_dry=True)
        (would_go,) = [one async for one in expiring]
        assert (would_go.session, would_go.reason) == (session.id, "bytes")
        assert would_go.bytes > 100
        async with house.visit() as ann, asyncio.timeout(20):
            await ann.load_session(session.id, tmp_path)
            assert not await house.gateway._delete(session.id, would_go.updated)
            assert (await ann.session(session.id).prompt("still")).stop_reason == "end_turn"


def _closing(id: str) -> Any:
    from dragoman import schema as s

    return s.CloseSessionRequest(session_id=id)
