"""What every engine of a gateway promises, tried on each: `Engine` in `gateway/log/engine.py` says it in words."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.gateway.log.engine import (
    MAX_FACT,
    MAX_KEY,
    Conflict,
    Engine,
    EngineFailure,
    Fact,
    Fenced,
    Key,
    Lease,
    LogEntry,
    StoredRecord,
    Unanswered,
    Upkeep,
)

from .engines import ENGINES, NewStore

HELD = 60.0  # seconds, longer than any test


@pytest.fixture(params=ENGINES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def new_store(kind: str, tmp_path: Path) -> AsyncIterator[NewStore]:
    async with ENGINES[kind](tmp_path) as new_store:
        yield new_store


@pytest.fixture
async def engine(new_store: NewStore) -> AsyncIterator[Engine]:
    engine = await new_store()()
    yield engine
    await engine.close()


async def taken(engine: Engine, name: str, owner: str = "us") -> Lease:
    lease = await engine.acquire(name, owner, HELD)
    assert lease
    return lease


async def taken_over(engine: Engine, lease: Lease) -> Lease:
    """The lease in other hands, after its holder gave it up and forgot that it did."""
    await engine.release(lease)
    return await taken(engine, lease.name, "them")


def entry(number: int) -> LogEntry:
    return LogEntry("agent", b'{"n":%d}' % number)


async def numbers(engine: Engine, session: str = "s") -> list[int]:
    return [record.number for record in await engine.read(session)]


# Logs


async def test_what_is_appended_is_read_back_byte_for_byte_and_in_order(engine: Engine) -> None:
    lease = await taken(engine, "s")
    frame = bytes(range(256))
    await engine.append(lease, [LogEntry("client", frame, "ann", "seat"), entry(2)], after=0)
    await engine.append(lease, [entry(3)], after=2)
    records = await engine.read("s")
    assert [(record.number, record.epoch) for record in records] == [(n, lease.epoch) for n in (1, 2, 3)]
    assert records[0].entry == LogEntry("client", frame, "ann", "seat")
    assert [record.number for record in await engine.read("s", after=1, limit=1)] == [2]
    assert await engine.last("s") == 3
    assert await engine.last("another") == 0


async def test_appends_of_many_at_once_are_all_kept(engine: Engine) -> None:
    leases = [await taken(engine, f"s{number}") for number in range(20)]
    for after in range(10):
        await asyncio.gather(*(engine.append(lease, [entry(after)], after) for lease in leases))
    for lease in leases:
        assert await numbers(engine, lease.name) == list(range(1, 11))


async def test_a_long_history_is_read_in_pieces(engine: Engine) -> None:
    lease = await taken(engine, "s")
    await engine.append(lease, [LogEntry("agent", b"x" * 600_000)] * 5, after=0)
    found: list[int] = []
    while records := await engine.read("s", after=len(found)):
        found += [record.number for record in records]
        assert all(record.entry.frame == b"x" * 600_000 for record in records)
    assert found == [1, 2, 3, 4, 5]


async def test_a_record_in_the_middle_of_a_long_history_is_found(engine: Engine) -> None:
    lease = await taken(engine, "s")
    for after in range(0, 300, 3):
        await engine.append(lease, [entry(after + place) for place in (1, 2, 3)], after)
    for wanted in (1, 2, 150, 299, 300):
        (found,) = await engine.read("s", after=wanted - 1, limit=1)
        assert (found.number, found.entry) == (wanted, entry(wanted))
    assert await engine.read("s", after=300) == []


async def test_listeners_hear_of_their_session_alone_and_after_each_append(engine: Engine) -> None:
    heard: list[int] = []
    grown = asyncio.Event()
    appended = 0

    def hear() -> None:
        heard.append(appended)
        grown.set()

    others: list[str] = []
    end = engine.listen("s", hear)
    engine.listen("t", lambda: others.append("t"))
    lease = await taken(engine, "s")
    for number in range(3):
        grown.clear()
        await engine.append(lease, [entry(number)], after=number)
        appended += 1
        while appended not in heard:  # once `append` has returned
            grown.clear()
            await grown.wait()
    end()
    end()
    told = len(heard)
    await engine.append(lease, [entry(3)], after=3)
    await engine.last("s")
    assert len(heard) == told
    assert len(others) <= 1  # once when the engine begins to listen


# Requests to the holder of a lease


async def shout(session: str, request: bytes) -> bytes:
    return session.encode() + b": " + request.upper()


async def test_a_request_is_answered_by_whoever_holds_the_lease_of_the_session(engine: Engine) -> None:
    await taken(engine, "s.ä")
    await taken(engine, "t", "them")
    end = await engine.answer("us", shout)
    asked = [engine.call("s.ä", b"%d\x00\xff a" % number) for number in range(20)]
    assert await asyncio.gather(*asked) == [f"s.ä: {number}".encode() + b"\x00\xff A" for number in range(20)]
    with pytest.raises(Unanswered):
        await engine.call("t", b"a")  # whose holder answers nothing
    await end()
    with pytest.raises(Unanswered):
        await engine.call("s.ä", b"a")


async def test_a_request_that_nobody_answers_says_so_and_harms_no_other(engine: Engine) -> None:
    async def fail(session: str, request: bytes) -> bytes:
        if request == b"fail":
            raise RuntimeError("it failed")
        return b""

    lease = await taken(engine, "s")
    await engine.answer("us", fail)
    with pytest.raises(Unanswered):
        await engine.call("s", b"fail")
    assert await engine.call("s", b"go on") == b""
    with pytest.raises(Unanswered):
        await engine.call("nobody has it", b"a")
    with pytest.raises(ValueError, match="bytes"):
        await engine.call("s", b"x" * (MAX_FACT + 1))
    await engine.release(lease)
    with pytest.raises(Unanswered):
        await engine.call("s", b"go on")


async def test_a_request_reaches_the_gateway_that_holds_the_lease_elsewhere(kind: str, new_store: NewStore) -> None:
    opened = new_store()
    here, there = await opened(), await opened()
    try:
        await taken(there, "s", "there")
        await there.answer("there", shout)
        if kind == "sqlite":  # whose processes cannot ask each other
            with pytest.raises(Unanswered):
                await here.call("s", b"a")
        else:
            assert await here.call("s", b"a") == b"s: A"
    finally:
        await here.close()
        await there.close()


# Writing once


async def test_an_append_whose_answer_was_lost_writes_once_when_it_is_tried_again(engine: Engine) -> None:
    lease = await taken(engine, "s")
    entries = [entry(1), LogEntry("client", b"\x00", "ann", "seat")]
    for _ in range(3):
        await engine.append(lease, entries, after=0)
    assert await numbers(engine) == [1, 2]
    await engine.append(lease, [*entries, entry(3)], after=0)  # as if only a part had been written
    assert await numbers(engine) == [1, 2, 3]


async def test_other_words_in_the_place_of_what_stands_there_are_refused(engine: Engine) -> None:
    lease = await taken(engine, "s")
    await engine.append(lease, [entry(1), entry(2)], after=0)
    for wrong in ([entry(1)], [entry(1), entry(3)], [LogEntry("agent", entry(1).frame, "ann"), entry(2)]):
        with pytest.raises(Fenced):
            await engine.append(lease, wrong, after=0)
    assert await numbers(engine) == [1, 2]


async def test_the_same_words_of_an_older_holder_are_refused(engine: Engine) -> None:
    old = await taken(engine, "s")
    await engine.append(old, [entry(1)], after=0)
    new = await taken_over(engine, old)
    for lease in (old, new):
        with pytest.raises(Fenced):
            await engine.append(lease, [entry(1)], after=0)


async def test_an_append_in_the_wrong_place_is_refused_and_leaves_the_others_alone(engine: Engine) -> None:
    lease, other = await taken(engine, "s"), await taken(engine, "t")
    outcomes = await asyncio.gather(
        engine.append(lease, [entry(5)], after=4), engine.append(other, [entry(1)], after=0), return_exceptions=True
    )
    assert isinstance(outcomes[0], Fenced)
    assert (await engine.last("s"), await engine.last("t")) == (0, 1)


# Leases


async def test_only_the_newest_holder_of_a_lease_writes(engine: Engine) -> None:
    old = await taken(engine, "s")
    new = await taken_over(engine, old)
    assert new.epoch > old.epoch
    with pytest.raises(Fenced):
        await engine.append(old, [entry(1)], after=0)
    with pytest.raises(Fenced):
        await engine.adopt(old, [StoredRecord(1, 1, 0.0, entry(1))], after=0)
    with pytest.raises(Fenced):
        await engine.put_blob(old, b"large")
    upkeep = [Upkeep(new, {"session": b"x"}), Upkeep(old, {"session": b"late"})]
    assert list(await engine.keep_up(upkeep, HELD)) == [old]
    assert {key: fact.value async for key, fact in engine.facts("session")} == {("s",): b"x"}
    await engine.append(new, [entry(1)], after=0)
    assert await numbers(engine) == [1]


async def test_a_lease_that_is_held_is_nobody_elses(kind: str, engine: Engine) -> None:
    if kind == "memory":
        return
    lease = await taken(engine, "s", "one")
    assert await engine.acquire("s", "two", HELD) is None
    assert not await engine.keep_up([Upkeep(lease)], HELD)
    assert (await taken(engine, "s", "one")).epoch > lease.epoch


async def test_who_takes_leases_has_one_name(engine: Engine) -> None:
    name = await engine.identity()
    assert name
    assert await engine.identity() == name


async def test_adopted_records_are_as_they_were_and_appends_follow(engine: Engine) -> None:
    lease = await taken(engine, "s")
    await engine.adopt(lease, [StoredRecord(1, 0, 1.5, entry(1)), StoredRecord(2, 0, 2.5, entry(2))], after=0)
    await engine.append(lease, [entry(3)], after=2)
    found = await engine.read("s")
    assert [(one.number, one.time) for one in found[:2]] == [(1, 1.5), (2, 2.5)]
    assert [one.entry for one in found] == [entry(1), entry(2), entry(3)]


# Facts


async def test_a_fact_changed_by_somebody_else_is_a_conflict(engine: Engine) -> None:
    first = await engine.put_fact("session", "ann", "1", value=b"a", revision=0)
    with pytest.raises(Conflict):
        await engine.put_fact("session", "ann", "1", value=b"b", revision=0)
    second = await engine.put_fact("session", "ann", "1", value=b"b", revision=first)
    assert await engine.fact("session", "ann", "1") == Fact(b"b", second)
    await engine.drop_fact("session", "ann", "1")
    assert await engine.fact("session", "ann", "1") is None
    await engine.put_fact("session", "ann", "1", value=b"c", revision=0)


async def test_facts_are_found_by_the_parts_that_their_keys_begin_with(engine: Engine) -> None:
    keys: list[Key] = [("ann", "1"), ("ann", "2"), ("anna", "1"), ("a.n", "*"), ("ann\n1", ">"), ("", "x y")]
    for key in keys:
        await engine.put_fact("seat", *key, value=repr(key).encode())
    await engine.put_fact("other", "ann", "1", value=b"")
    everything = {key: repr(key).encode() for key in keys}
    assert {key: fact.value async for key, fact in engine.facts("seat")} == everything
    assert {key async for key, _ in engine.facts("seat", "ann")} == {("ann", "1"), ("ann", "2")}
    assert {key async for key, _ in engine.facts("seat", "an")} == set()
    found = await engine.facts_of("seat", [keys[0], ("nobody", "1"), keys[4]])
    assert {key: fact.value for key, fact in found.items()} == {key: everything[key] for key in (keys[0], keys[4])}


async def test_every_fact_of_thousands_is_told(engine: Engine) -> None:
    keys = [(f"{number:04}",) for number in range(2500)]
    for start in range(0, len(keys), 100):
        await asyncio.gather(*(engine.put_fact("session", *key, value=b"x") for key in keys[start : start + 100]))
    assert sorted([key async for key, _ in engine.facts("session")]) == keys
    assert len(await engine.facts_of("session", keys)) == len(keys)


@pytest.mark.parametrize("kind", sorted(set(ENGINES) - {"memory"}), indirect=True)
async def test_what_is_too_large_for_a_fact_is_refused(engine: Engine) -> None:
    await engine.put_fact("session", "s", value=b"x" * MAX_FACT)
    with pytest.raises(ValueError, match="bytes"):
        await engine.put_fact("session", "s", value=b"x" * (MAX_FACT + 1))
    with pytest.raises(ValueError, match="bytes"):
        await engine.put_fact("session", "k" * (MAX_KEY + 1), value=b"")


# What is large, and forgetting


async def test_a_blob_is_found_by_its_hash(engine: Engine) -> None:
    data = os.urandom(600_000)
    name = await engine.put_blob(await taken(engine, "s"), data)
    assert name == hashlib.sha256(data).hexdigest()
    assert b"".join([piece async for piece in engine.blob("s", name)]) == data
    for session, wanted in (("s", "unknown"), ("another", name)):
        with pytest.raises(EngineFailure):
            await anext(engine.blob(session, wanted))


async def test_what_is_forgotten_is_found_nowhere(engine: Engine) -> None:
    lease, other = await taken(engine, "s"), await taken(engine, "t")
    await engine.append(lease, [entry(1)], after=0)
    await engine.append(other, [entry(1)], after=0)
    name = await engine.put_blob(lease, b"large")
    await engine.mark_for_deletion("s")
    assert await engine.marked_for_deletion() == ["s"]
    await engine.forget("s")
    assert await engine.marked_for_deletion() == []
    assert (await engine.last("s"), await engine.read("s")) == (0, [])
    with pytest.raises(EngineFailure):
        await anext(engine.blob("s", name))
    assert await numbers(engine, "t") == [1]
    await engine.append(await taken(engine, "s", "them"), [entry(9)], after=0)  # the name can be used again
    assert await numbers(engine) == [1]


# Any order of everything

Step = tuple[Any, ...]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.booleans(), st.integers(1, 5), st.sampled_from([1, 40, 300_000])),
        st.tuples(st.just("again"), st.booleans()),
        st.tuples(st.just("take over"), st.booleans()),
        st.tuples(st.just("put"), st.sampled_from("ab"), st.booleans()),
        st.tuples(st.just("drop"), st.sampled_from("ab")),
        st.tuples(st.just("reopen")),
    ),
    max_size=25,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(STEPS)
async def test_any_order_of_writes_takeovers_and_restarts_keeps_one_history(
    new_store: NewStore, steps: list[Step]
) -> None:
    opened = new_store()
    engine = await opened()
    stale: Lease | None = None
    lease = await taken(engine, "s", "one")
    owners = iter("abcdefghijklmnopqrstuvwxyz")
    log: list[LogEntry] = []
    newest: list[LogEntry] = []
    facts: dict[str, Fact] = {}
    for step in steps:
        match step:
            case ("append", is_stale, count, size):
                entries = [LogEntry("agent", os.urandom(8) * (size // 8 + 1)) for _ in range(count)]
                if is_stale and stale:
                    with pytest.raises(Fenced):
                        await engine.append(stale, entries, len(log))
                else:
                    await engine.append(lease, entries, len(log))
                    log, newest = log + entries, entries
            case ("again", is_stale) if newest:
                if is_stale and stale:
                    with pytest.raises(Fenced):
                        await engine.append(stale, newest, len(log) - len(newest))
                else:
                    await engine.append(lease, newest, len(log) - len(newest))
            case ("take over", _):
                stale = lease
                await engine.release(lease)
                lease, newest = await taken(engine, "s", next(owners)), []
                assert lease.epoch > stale.epoch
            case ("put", key, is_conditional):
                known = facts[key].revision if key in facts else 0
                value = os.urandom(4)
                revision = await engine.put_fact("k", key, value=value, revision=known if is_conditional else None)
                facts[key] = Fact(value, revision)
            case ("drop", key):
                await engine.drop_fact("k", key)
                facts.pop(key, None)
            case ("reopen",):
                await engine.close()
                engine = await opened()
        assert await engine.last("s") == len(log)
    found: list[StoredRecord] = []
    while page := await engine.read("s", after=len(found)):
        found += page
    assert [record.number for record in found] == list(range(1, len(log) + 1))
    assert [record.entry for record in found] == log
    assert {key: fact async for (key,), fact in engine.facts("k")} == facts
    await engine.close()
