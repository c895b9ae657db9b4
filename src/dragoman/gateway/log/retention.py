"""Deletes stored sessions by age, number and size, for each principal separately."""

import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Container, Iterable
from typing import Literal

import msgspec
from msgspec import Struct

from ..metrics import Metrics
from . import summary
from .engine import DamagedLog, Engine
from .session_facts import MEMBER, SessionFacts

log = logging.getLogger("dragoman")

SOON, EVERY = 5.0, 60.0  # seconds until the first check, and between two checks
ROUND = 3600.0  # seconds that one deletion may take
Reason = Literal["age", "count", "bytes"]


class Retention(Struct, frozen=True, kw_only=True):
    """The limits of each principal's stored sessions; None sets no limit.  The latest sessions are kept."""

    seconds: float | None = None  # days since a session was last used
    sessions: int | None = None
    bytes: int | None = None  # bytes of all their logs together

    def __bool__(self) -> bool:
        return any(limit is not None for limit in (self.seconds, self.sessions, self.bytes))


class KeptSession(Struct, frozen=True):
    """The facts about a session that decide on its deletion."""

    session: str
    principal: str
    updated: float
    bytes: int
    is_open: bool = False  # it counts, but is never deleted


class Expired(Struct, frozen=True):
    """A session to delete, with the time of its last use at the decision."""

    session: str
    principal: str
    updated: float
    bytes: int
    reason: Reason


def expired(kept: Iterable[KeptSession], retention: Retention, now: float) -> list[Expired]:
    """The sessions beyond the retention, the longest unused first."""
    by_principal: dict[str, list[KeptSession]] = {}
    for one in kept:
        by_principal.setdefault(one.principal, []).append(one)
    found = [one for own in by_principal.values() for one in _expired_of_one(own, retention, now)]
    return sorted(found, key=lambda one: (one.updated, one.session))


def _expired_of_one(own: list[KeptSession], retention: Retention, now: float) -> Iterable[Expired]:
    count = size = 0
    # Open ones first: they stay, so their size counts against the others.
    for one in sorted(own, key=lambda one: (not one.is_open, -one.updated, one.session)):
        if not one.is_open and (reason := _reason(one, retention, now, count, size)):
            yield Expired(one.session, one.principal, one.updated, one.bytes, reason)
        else:
            count += 1
            size += one.bytes


def _reason(one: KeptSession, retention: Retention, now: float, count: int, size: int) -> Reason | None:
    if retention.seconds is not None and now - one.updated > retention.seconds:
        return "age"
    if retention.sessions is not None and count >= retention.sessions:
        return "count"
    if retention.bytes is not None and size + one.bytes > retention.bytes:
        return "bytes"
    return None


async def kept_sessions(
    engine: Engine, is_open: Container[str], principal: str | None = None
) -> AsyncIterator[KeptSession]:
    """All sessions, or those of one principal."""
    async for (id,), fact in engine.facts("session"):
        facts = msgspec.json.decode(fact.value, type=SessionFacts)
        if principal in (None, facts.principal):
            yield KeptSession(id, facts.principal, facts.updated, facts.bytes, id in is_open)


async def forget_session(engine: Engine, id: str) -> None:
    """Delete all data of a session: its roles, its facts and its log.

    It may be interrupted at any moment; `Engine.marked_for_deletion` then names the session, and calling this again
    finishes the deletion.
    """
    await engine.mark_for_deletion(id)  # from now on, the deletion will be finished after any failure
    for principal in await _parties(engine, id):
        await engine.drop_fact(MEMBER, principal, id)
    for kind in ("session", *summary.KINDS):
        await engine.drop_fact(kind, id)
    await engine.forget(id)


async def _parties(engine: Engine, id: str) -> Iterable[str]:
    """The principals with a role in a session: from its facts, or if they are damaged, from other data."""
    try:
        fact = await engine.fact("session", id)
    except DamagedLog:
        return [principal async for (principal, session), _ in engine.facts(MEMBER) if session == id]
    if fact is None:
        return ()
    facts = msgspec.json.decode(fact.value, type=SessionFacts)
    return (facts.principal, *facts.roles)


class Expiry:
    """Deletes sessions beyond the retention regularly; `delete` gets a session and the time of its last use."""

    def __init__(
        self,
        engine: Engine,
        retention: Retention,
        is_open: Container[str],
        delete: Callable[[str, float], Awaitable[bool]],
        metrics: Metrics,
    ) -> None:
        self.retention = retention
        self._engine, self._is_open, self._delete, self._metrics = engine, is_open, delete, metrics

    async def clear_away(self) -> None:
        """Finish interrupted deletions, and delete sessions beyond the retention."""
        for id in await self._engine.marked_for_deletion():
            await forget_session(self._engine, id)
        if self.retention and (gone := [one async for one in self.expire(self.retention)]):
            log.info("%d sessions beyond the retention were deleted", len(gone))

    async def make_room(self, principal: str) -> None:
        """Delete one principal's sessions beyond the retention."""
        if self.retention:
            async for _ in self.expire(self.retention, principal):
                pass

    async def expire(
        self, retention: Retention, principal: str | None = None, *, is_dry: bool = False
    ) -> AsyncGenerator[Expired, None]:
        """Delete sessions beyond a retention, of all principals or of one; returns them, even if only listed."""
        kept = [one async for one in kept_sessions(self._engine, self._is_open, principal)]
        for one in expired(kept, retention, time.time()):
            if is_dry or await self._delete(one.session, one.updated):
                if not is_dry:
                    self._metrics.expired.add(1, one.reason)
                yield one
