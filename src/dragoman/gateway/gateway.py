"""The gateway: its agents, their processes and the open sessions.

It holds no state that must survive it: sessions are reopened from their logs when a client needs them.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Raw

from ..errors import Error, InternalError, InvalidParams, ResourceNotFound
from ..foundation.owning import Work
from .access.budget import GatewayBudget, Share
from .access.checks import Checks
from .access.introductions import Introduction
from .access.limits import Limits, draining
from .access.logins import Logins
from .access.principals import PrincipalName
from .access.workspaces import Workspaces
from .agents.processes import Idleness, Processes
from .agents.upstream import Hosted
from .chores import Chore, GatewayChores
from .leases import Leases
from .log import summary
from .log.clock import IncreasingClock
from .log.engine import DamagedLog, Engine, EngineFailure
from .log.records import changed, members, raw
from .log.retention import EVERY, ROUND, SOON, Expiry, Retention, forget_session
from .log.session_facts import MAX_STATED, MEMBER, Detached, ListedSession, SessionFacts
from .metrics import Metrics
from .sessions.hosted_session import HostedSession
from .sessions.viewer import ConnectedClient
from .upkeep import LEASE, RENEW_EVERY, look_after, upkeep_of
from .workers import DetachedWork, Locks

log = logging.getLogger("dragoman")

T = TypeVar("T")
ForgetAtAgent = Callable[[SessionFacts | None], Awaitable[None]]

IDLE = 1800.0  # seconds that a session without viewers stays open
CHECK_EVERY = 5.0  # seconds between two checks whether the log can be written
PAGE = 100  # sessions in one answer to session/list
ID_BYTES = 24

_read_listed = msgspec.json.Decoder(ListedSession).decode


class Gateway:
    """Hosts agents; an async context manager."""

    def __init__(
        self,
        engine: Engine,
        agents: Mapping[str, Hosted],
        *,
        default: str | None = None,
        limits: Limits = Limits(),  # noqa: B008 - it cannot change
        checks: Checks = Checks(),  # noqa: B008
        detached: Detached = Detached(),  # noqa: B008
        clock: Callable[[], float] = time.monotonic,
        retention: Retention = Retention(),  # noqa: B008
        takes_over: bool = False,
    ) -> None:
        if not agents:
            raise ValueError("a gateway needs at least one agent")
        self.engine, self.agents, self.checks = engine, agents, checks
        self.detached = detached
        self.default = default or next(iter(agents))
        self.metrics = Metrics()
        self.budget = GatewayBudget(limits, lambda name: self.metrics.refusals.add(1, name))
        self.logins = Logins()
        self._errands = DetachedWork()
        self.clock = IncreasingClock(engine)
        self.workspaces = Workspaces(checks.workspace)
        self.processes = Processes(agents, self.workspaces, self.budget, self.metrics, self._errands, clock)
        self.live: dict[str, HostedSession] = {}
        self.is_draining = False
        self.is_leaving = False  # the session was left to a process that has taken over
        self._takes_over = takes_over
        self._leases = Leases(engine, self._let_go_if_idle)
        self._shares: dict[str, Share] = {}  # the open sessions' shares of the budget
        self._idle = Idleness(clock)
        self._locks = Locks()  # by session: opening, repairing and deleting exclude each other
        self._closing: dict[str, asyncio.Task[None]] = {}
        self.chores = GatewayChores()
        self.expiry = Expiry(engine, retention, self.live, self._delete, self.metrics)

    @property
    def limits(self) -> Limits:
        return self.budget.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self.budget.limits = limits

    async def __aenter__(self) -> Self:
        await self._leases.begin(is_new=self._takes_over)
        await self.clock.begin()
        self.workspaces.hold()
        self.chores.begin(Chore("upkeep", lambda: self.upkeep(), RENEW_EVERY))
        self.chores.begin(Chore("log", self.engine.check, CHECK_EVERY, first=0.0))
        self.chores.begin(Chore("retention", self.expiry.clear_away, EVERY, first=SOON, late=ROUND))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.chores.end()
        await self._leases.end()
        with contextlib.suppress(Error):
            await self.clock.keep()
        await self._close_all()
        await self._errands.ended()
        await self.processes.close()
        await self._errands.ended()
        self.workspaces.close()

    async def drain(self, patience: float) -> None:
        """Refuse new work, give running turns some time to finish, and send all outcomes.

        A server awaits this before it closes connections, because clients that do not return get outcomes only now.
        """
        self.is_draining = self.processes.is_draining = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await asyncio.gather(*(session.turns.finished() for session in self.live.values()))
        await self._close_all()

    async def _close_all(self) -> None:
        await asyncio.gather(*(self.close(session, is_last=True) for session in list(self.live.values())))

    # Sessions

    async def new(
        self, agent: str, principal: PrincipalName, found: dict[str, Raw], client: ConnectedClient
    ) -> tuple[HostedSession, Raw]:
        """Open a new session; returns it and the answer for its client."""
        facts = await self._facts(agent, principal, found, client.introduction)
        return await self._errands.finish(self._begin(facts, None, client), self._undo)

    async def fork(
        self, source: HostedSession, found: dict[str, Raw], client: ConnectedClient
    ) -> tuple[HostedSession, Raw]:
        """Open a copy of a session of its owner; returns it and the answer for its client."""
        own = source.facts
        facts = await self._facts(own.agent, own.principal, found, own.introduction)
        return await self._errands.finish(self._begin(facts, source, client), self._undo)

    async def _facts(
        self, agent: str, principal: PrincipalName, found: dict[str, Raw], introduction: Introduction
    ) -> SessionFacts:
        """The facts of a session to be opened; raises if the client may not open it."""
        if self.is_draining:
            raise draining()
        self.checks.opening(found, self.limits)
        cwd, now = self.workspaces.settle(found, principal), self.clock.now()
        await self.checks.reach(found)
        await self._room_to_keep(principal)
        opening = raw({name: value for name, value in found.items() if name != "sessionId"})
        if len(bytes(opening)) > MAX_STATED:
            raise InvalidParams(f"the params of a session have at most {MAX_STATED} bytes here")
        return SessionFacts(
            *(agent, principal, cwd, opening),
            created=now,
            updated=now,
            detached=self.detached.asked_for(found),
            introduction=introduction,
        )

    async def _room_to_keep(self, principal: str) -> None:
        """Make room for one more stored session, if necessary by deleting sessions beyond the retention."""
        for is_last in (False, True):
            if len([key async for key, _ in self.engine.facts(MEMBER, principal)]) < self.limits.kept_each:
                return
            if is_last:
                raise self.budget.refuse("kept_each")
            await self.expiry.make_room(principal)

    async def _undo(self, opened: tuple[HostedSession, Raw]) -> None:
        """Delete a session whose client disconnected before it knew of it."""
        await self._delete(opened[0].id)

    async def _begin(
        self, facts: SessionFacts, source: HostedSession | None, client: ConnectedClient
    ) -> tuple[HostedSession, Raw]:
        async with self._room_for_session(facts.principal) as share:
            id = "sess_" + secrets.token_urlsafe(ID_BYTES)
            session = HostedSession(id, facts, await self._leases.take(id), self)
            session.servers.offer(client, members(facts.opening))  # the agent may use them before it answers
            try:
                result = await (self._opened_anew(session) if source is None else self._forked(session, source))
                await self._keep(session, result)
            except BaseException:
                session.history.leave()
                await session.link.close(is_told=True)
                with contextlib.suppress(Error):
                    await self.engine.forget(id)
                raise
            self._opened(session, share)
            return session, changed(members(result), sessionId=id)

    async def _opened_anew(self, session: HostedSession) -> Raw:
        facts = session.facts
        upstream = await self.processes.get(facts.agent, facts.principal, facts.introduction, session.id)
        return await session.link.open(upstream)

    async def _forked(self, session: HostedSession, source: HostedSession) -> Raw:
        """Copy the history, and let the agent continue it in a new session."""
        await session.take_over(source)
        upstream, id, result = await source.link.fork(session)
        await session.link.adopt(upstream, id)
        return result

    async def _keep(self, session: HostedSession, result: Raw) -> None:
        facts = session.facts
        facts.state = changed({name: value for name, value in members(result).items() if name != "sessionId"})
        if len(bytes(facts.state)) > MAX_STATED:
            raise InternalError(f"the agent's modes and options have more than {MAX_STATED} bytes")
        await self.engine.put_fact(MEMBER, facts.principal, session.id, value=b"")
        await self.save_facts(session.id, facts)

    async def find(self, id: str, principal: str) -> HostedSession:
        """A session that the principal has a role in, opened or repaired if necessary; others count as missing."""
        session = self.live.get(id)
        if session and session.is_sound and session.facts.role_of(principal):
            return session
        async with self._locks.hold(id):
            await self._closed(id)
            facts = await self.known(id, principal)
            if session := self.live.get(id):
                await self._mend(session)
                return session
            return await self._open(id, facts)

    async def known(self, id: str, principal: str) -> SessionFacts:
        """The facts of a session that the principal has a role in, open or not."""
        session = self.live.get(id)
        facts = session.facts if session else await self._kept_facts(id)
        if facts is None or facts.role_of(principal) is None:
            raise unknown(id)
        return facts

    async def _kept_facts(self, id: str) -> SessionFacts | None:
        """The stored facts of a session that is not open."""
        fact = await self.engine.fact("session", id)
        return msgspec.json.decode(fact.value, type=SessionFacts) if fact else None

    async def _mend(self, session: HostedSession) -> None:
        """Repair a session whose log could not be written."""
        if session.history.broken:
            await session.mend(await self._leases.take(session.id))

    async def _open(self, id: str, facts: SessionFacts) -> HostedSession:
        if self.is_draining:
            raise draining()
        async with self._room_for_session(facts.principal) as share:
            lease, last = await self._leases.take(id), await self.engine.last(id)
            session = HostedSession(id, facts, lease, self, last=last, kept=await self._summaries(id))
            try:
                await session.recover()
            except BaseException:
                session.history.leave()
                raise
            self._opened(session, share)
            return session

    async def _summaries(self, id: str) -> list[bytes]:
        """The stored summary of a session's log; rebuilt from the log if it is lost."""
        found = []
        for kind in summary.KINDS:
            with contextlib.suppress(DamagedLog):
                fact = await self.engine.fact(kind, id)
                found += [fact.value] if fact else []
        return found

    def _opened(self, session: HostedSession, share: Share) -> None:
        self.live[session.id], self._shares[session.id] = session, share
        self.metrics.sessions.set(len(self.live))

    async def _let_go_if_idle(self, id: str) -> bool:
        """Close a session that another gateway asks for, unless somebody needs it here."""
        session = self.live.get(id)
        if session is not None and not session.is_idle:
            return False
        if session is not None:
            self._begin_close(session)
        await self._closed(id)
        return True

    @contextlib.asynccontextmanager
    async def _room_for_session(self, principal: str) -> AsyncIterator[Share]:
        """Make room for one more open session, if necessary by closing an unused one.

        The session gets the share, unless opening it fails.
        """
        if limit := self.budget.reached("sessions", principal):
            idle = (session for session in self.live.values() if session.is_idle)
            own = (session for session in idle if limit == "sessions" or session.facts.principal == principal)
            if (unused := next(own, None)) is not None:
                self._begin_close(unused)  # it is not open any more; closing it at the agent may take longer
        share = self.budget.take("sessions", principal)
        try:
            yield share
        except BaseException:
            share.give_back()
            raise

    async def listed(self, principal: str) -> list[tuple[str, ListedSession]]:
        """The sessions that a principal has a role in, the latest first."""
        keys = [(id,) async for (_, id), _ in self.engine.facts(MEMBER, principal)]
        found = await self.engine.facts_of("session", keys)
        kept = {id: _read_listed(fact.value) for (id,), fact in found.items()}
        for id in kept.keys() & self.live.keys():
            kept[id] = msgspec.convert(self.live[id].facts, ListedSession, from_attributes=True)
        return sorted(kept.items(), key=lambda found: (-found[1].updated, found[0]))

    async def save_facts(self, id: str, facts: SessionFacts) -> None:
        await self.engine.put_fact("session", id, value=msgspec.json.encode(facts))

    async def share(self, session: HostedSession, principal: str, role: str | None) -> None:
        """Give another principal a role in a session."""
        if principal == session.facts.principal:
            raise InvalidParams("the owner of a session has every role in it")
        if role not in ("viewer", "editor", "admin", None):
            raise InvalidParams("role is viewer, editor, admin or null")
        if role is None:  # immediately, even if storing it fails
            session.share(principal, None)
            await self.save_facts(session.id, session.facts)
            await self.engine.drop_fact(MEMBER, principal, session.id)
        else:
            roles: Any = {**session.facts.roles, principal: role}
            await self.engine.put_fact(MEMBER, principal, session.id, value=b"")
            await self.save_facts(session.id, msgspec.structs.replace(session.facts, roles=roles))
            session.share(principal, roles[principal])

    async def delete(self, id: str, at_agent: ForgetAtAgent | None = None) -> None:
        """Delete a session, first at its agent; it is kept if the agent fails."""
        await self.finish(self._delete(id, at_agent=at_agent))

    async def _delete(
        self, id: str, unless_used_after: float | None = None, at_agent: ForgetAtAgent | None = None
    ) -> bool:
        """Delete a session; false if it was used since a given time and is therefore kept."""
        async with self._locks.hold(id):
            if unless_used_after is not None and not await self._is_unused(id, unless_used_after):
                return False
            if session := self.live.get(id):
                self._begin_close(session)
            await self._closed(id)
            if at_agent:
                with contextlib.suppress(DamagedLog):  # the agent's id of an unreadable session is unknown
                    await at_agent(await self._kept_facts(id))
            await forget_session(self.engine, id)
            return True

    async def _is_unused(self, id: str, since: float) -> bool:
        """Whether a session was not used since a given time; its lock must be held."""
        if id in self.live or id in self._closing:
            return False
        facts = await self._kept_facts(id)
        return facts is not None and facts.updated <= since

    async def close(self, session: HostedSession, *, is_last: bool = False) -> None:
        """Close a session for everybody; it can be loaded again.  `is_last` if its agents end, too."""
        await asyncio.shield(self._begin_close(session, is_last=is_last))

    def _begin_close(self, session: HostedSession, *, is_last: bool = False) -> "asyncio.Task[None]":
        """Remove a session from the open ones; reopening it waits until it is closed."""
        if self.live.get(session.id) is session:
            del self.live[session.id]
            self._shares.pop(session.id).give_back()
            self.metrics.sessions.set(len(self.live))
            self._closing[session.id] = self._errands.start(self._end(session, is_last))
        return self._closing.get(session.id) or self._errands.start(asyncio.sleep(0))

    async def _end(self, session: HostedSession, is_last: bool) -> None:
        try:
            await session.close(is_last=is_last)
            self.processes.end(session.facts.agent, session.facts.principal, session.id)
            with contextlib.suppress(EngineFailure):
                await self.engine.keep_up([upkeep_of(session)], LEASE)
                await self.engine.release(session.history.lease)
        finally:
            del self._closing[session.id]

    async def _closed(self, id: str) -> None:
        """Wait until a closing session is closed."""
        if closing := self._closing.get(id):
            await asyncio.wait([closing])

    def let_go(self, session: HostedSession) -> None:
        self._begin_close(session)

    async def finish(self, work: Work[T], undo: Callable[[T], Work[None]] | None = None) -> T:
        """Run a task to its end even if its caller is cancelled; in that case, undo its result."""
        return await self._errands.finish(work, undo)

    def start(self, work: Work[object]) -> None:
        """Run a task in the background."""
        self._errands.start(work)

    async def upkeep(self) -> None:
        """Renew leases, store sessions' facts, repair logs, and close unused sessions and processes."""
        try:
            await look_after(self, list(self.live.values()))
            await self.clock.keep()
        finally:
            for session in list(self.live.values()):
                if self._idle.lasts(session.id, IDLE, is_idle=session.is_idle):
                    self._begin_close(session)
            self._idle.keep(self.live)
            self.processes.tidy()

    async def mend(self, session: HostedSession) -> None:
        """Repair an open session whose log could not be written."""
        async with self._locks.hold(session.id):
            if self.live.get(session.id) is session:
                await self._mend(session)

    def unready(self) -> Sequence[str]:
        """Why new clients should not come now, one sentence for each reason, for the operator."""
        reasons = ["the gateway is about to stop"] if self.is_draining else []
        return reasons + list(self.chores.troubles())


def unknown(id: str) -> ResourceNotFound:
    """The same error for a missing session and for another user's."""
    return ResourceNotFound("Session not found", {"sessionId": id})


@contextlib.asynccontextmanager
async def running(gateway: Gateway) -> AsyncIterator[Gateway]:
    """A gateway and its engine, which end together."""
    try:
        async with gateway:
            yield gateway
    finally:
        with contextlib.suppress(Error):
            await gateway.engine.close()
