"""The regular upkeep of open sessions: renews their leases, stores their facts, repairs their logs."""

import logging
from collections.abc import Sequence
from typing import Protocol

import msgspec

from ..errors import Error
from .log import summary
from .log.engine import Engine, Upkeep
from .sessions.hosted_session import HostedSession

log = logging.getLogger("dragoman")

LEASE = 15.0  # seconds without a renewal after which another process may take a session
RENEW_EVERY = 5.0
TOGETHER = 200  # sessions in one write, for which other writers wait


class SessionOwner(Protocol):
    """The interface of the owner of the open sessions."""

    engine: Engine

    async def mend(self, session: HostedSession) -> None: ...
    def let_go(self, session: HostedSession) -> None: ...


async def look_after(owner: SessionOwner, sessions: Sequence[HostedSession]) -> None:
    """Renew open sessions, many in one write; those that another process holds by now are released."""
    for session in [session for session in sessions if session.history.broken]:
        try:
            await owner.mend(session)
        except Error as exc:
            log.error("session %s: %s", session.id, exc)
    failed: Error | None = None
    for start in range(0, len(sessions), TOGETHER):
        try:
            await _keep(owner, sessions[start : start + TOGETHER])
        except Error as exc:  # the others are still tried
            failed = exc
    if failed:
        raise failed


async def _keep(owner: SessionOwner, sessions: Sequence[HostedSession]) -> None:
    held = [upkeep_of(session) for session in sessions]
    try:
        lost = await owner.engine.keep_up(held, LEASE)
    except BaseException:
        for session, one in zip(sessions, held, strict=True):
            session.is_unsaved |= bool(one.facts)
        raise
    for session, one in zip(sessions, held, strict=True):
        if one.lease in lost and session.history.lease == one.lease:  # it was not repaired meanwhile
            log.error("session %s is somebody else's", session.id)
            owner.let_go(session)


def upkeep_of(session: HostedSession) -> Upkeep:
    """The write for a session: its lease, and its facts if they have changed."""
    lease = session.history.lease
    if not session.is_unsaved:
        return Upkeep(lease)
    session.is_unsaved = False
    session.facts.bytes = session.summary.size
    newest, older = summary.KINDS
    data, at = msgspec.json.encode(session.summary), session.summary.at
    facts = {"session": msgspec.json.encode(session.facts), newest: data}
    if at >= session.checkpoint + summary.CHECKPOINT:
        session.checkpoint = at
        facts[older] = data
    return Upkeep(lease, facts)
