"""The gateway: which agents there are, which processes run for whom, which sessions are open.

It holds nothing that may not be lost with it: sessions are opened again from their logs when somebody wants them.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Raw

from ..errors import Error, InvalidParams, Overloaded, ResourceNotFound
from ..foundation.owning import Work
from .access.checks import Checks
from .access.introductions import Introduction
from .access.logins import Logins
from .access.principals import PrincipalName
from .access.quotas import RETRY_AFTER, Quotas, draining, exceeded
from .access.workspaces import Workspaces
from .agents.processes import Idleness, Processes
from .agents.upstream import Hosted
from .log import summary
from .log.engine import DamagedLog, Engine, EngineFailure, Fenced, Lease
from .log.records import changed, members, raw
from .log.retention import Expiry, Retention, forget_session
from .log.session_facts import MEMBER, Detached, ListedSession, SessionFacts
from .metrics import Metrics
from .sessions.hosted_session import HostedSession
from .sessions.viewer import ConnectedClient
from .workers import DetachedWork, Locks, owned

log = logging.getLogger("dragoman")

T = TypeVar("T")
ForgetAtAgent = Callable[[SessionFacts | None], Awaitable[None]]

LEASE = 15.0  # seconds without a word after which a session is anybody's
RENEW_EVERY = 5.0
IDLE = 1800.0  # seconds a session without viewers stays open
PAGE = 100  # sessions in one answer to session/list
ID_BYTES = 24

_read_listed = msgspec.json.Decoder(ListedSession).decode


class Gateway:
    """Hosts agents; use it as a context."""

    def __init__(
        self,
        engine: Engine,
        agents: Mapping[str, Hosted],
        *,
        default: str | None = None,
        limits: Quotas = Quotas(),  # noqa: B008 - it cannot change
        checks: Checks = Checks(),  # noqa: B008
        detached: Detached = Detached(),  # noqa: B008
        clock: Callable[[], float] = time.monotonic,
        retention: Retention = Retention(),  # noqa: B008
    ) -> None:
        if not agents:
            raise ValueError("a gateway needs at least one agent")
        self.engine, self.agents, self.limits, self.checks = engine, agents, limits, checks
        self.detached = detached
        self.default = default or next(iter(agents))
        self.metrics = Metrics()
        self.logins = Logins()
        self._chores = DetachedWork()
        self.workspaces = Workspaces(checks.workspace)
        self.processes = Processes(agents, self.workspaces, limits, self.metrics, self._chores, clock)
        self.live: dict[str, HostedSession] = {}
        self.is_draining = False
        self._owner = ""
        self._opening: Counter[str] = Counter()  # sessions on their way, by principal
        self._idle = Idleness(clock)
        self._locks = Locks()  # by session: to be opened, mended and deleted one after the other
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._renewing: asyncio.Task[None] | None = None
        self.expiry = Expiry(engine, retention, self.live, self._delete, self.metrics)

    async def __aenter__(self) -> Self:
        name = await self.engine.fact("gateway", "owner")
        self._owner = name.value.decode() if name else secrets.token_hex(8)
        if name is None:
            await self.engine.put_fact("gateway", "owner", self._owner.encode())
        self.workspaces.hold()
        self._begin_upkeep()
        self.expiry.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._renewing
        self._renewing.cancel()
        await asyncio.wait([self._renewing])
        await self.expiry.end()
        await self._close_all()
        await self._chores.ended()
        await self.processes.close()
        await self._chores.ended()
        self.workspaces.close()

    async def drain(self, patience: float) -> None:
        """Take nothing new, give what runs some time to finish, and tell everybody how the rest of it ended.

        That is for whoever serves the gateway to await before it ends connections: clients that do not come back
        are told now or never.
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
        """Open a new session; gives it, and what its client is answered."""
        facts = await self._facts(agent, principal, found, client.introduction)
        return await self._chores.finish(self._begin(facts, None, client), self._undo)

    async def fork(
        self, source: HostedSession, found: dict[str, Raw], client: ConnectedClient
    ) -> tuple[HostedSession, Raw]:
        """Open a copy of a session of its owner's; gives it, and what its client is answered."""
        own = source.facts
        facts = await self._facts(own.agent, own.principal, found, own.introduction)
        return await self._chores.finish(self._begin(facts, source, client), self._undo)

    async def _facts(
        self, agent: str, principal: PrincipalName, found: dict[str, Raw], introduction: Introduction
    ) -> SessionFacts:
        """What is to be kept of a session that somebody wants to open, if they may."""
        if self.is_draining:
            raise draining()
        self.checks.opening(found, self.limits)
        cwd, now = self.workspaces.settle(found, principal), time.time()
        await self.checks.reach(found)
        await self._room_to_keep(principal)
        opening = raw({name: value for name, value in found.items() if name != "sessionId"})
        return SessionFacts(
            *(agent, principal, cwd, opening),
            created=now,
            updated=now,
            detached=self.detached.asked_for(found),
            introduction=introduction,
        )

    async def _room_to_keep(self, principal: str) -> None:
        """Room for one more kept session, made by deleting what is beyond the retention if there is none."""
        for is_last in (False, True):
            if len(await self.engine.facts(MEMBER, f"{principal}\n")) < self.limits.kept:
                return
            if is_last:
                raise exceeded("kept", self.limits.kept)
            await self.expiry.make_room(principal)

    async def _undo(self, opened: tuple[HostedSession, Raw]) -> None:
        """Delete a session whose client has gone before it knew of it."""
        await self._delete(opened[0].id)

    async def _begin(
        self, facts: SessionFacts, source: HostedSession | None, client: ConnectedClient
    ) -> tuple[HostedSession, Raw]:
        async with self._room_for_session(facts.principal):
            id = "sess_" + secrets.token_urlsafe(ID_BYTES)
            session = HostedSession(id, facts, await self._lease(id), self)
            session.servers.offer(client, members(facts.opening))  # which the agent may ask before it answers
            try:
                result = await (self._opened_anew(session) if source is None else self._forked(session, source))
                await self._keep(session, result)
            except BaseException:
                await session.link.close(is_told=True)
                with contextlib.suppress(Error):
                    await self.engine.forget(id)
                raise
            self._opened(session)
            return session, changed(members(result), sessionId=id)

    async def _opened_anew(self, session: HostedSession) -> Raw:
        facts = session.facts
        upstream = await self.processes.get(facts.agent, facts.principal, facts.introduction, session.id)
        return await session.link.open(upstream)

    async def _forked(self, session: HostedSession, source: HostedSession) -> Raw:
        """Copy what was said so far, and have the agent go on from there in a session of its own."""
        await session.take_over(source)
        upstream, id, result = await source.link.fork(session)
        await session.link.adopt(upstream, id)
        return result

    async def _keep(self, session: HostedSession, result: Raw) -> None:
        facts = session.facts
        facts.state = changed({name: value for name, value in members(result).items() if name != "sessionId"})
        await self.engine.put_fact(MEMBER, f"{facts.principal}\n{session.id}", b"")
        await self.save_facts(session.id, facts)

    async def find(self, id: str, principal: str) -> HostedSession:
        """A session somebody has a part in, opened or mended if need be; all others do not exist."""
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
        """What is known of a session somebody has a part in, open or not."""
        session = self.live.get(id)
        facts = session.facts if session else await self._kept_facts(id)
        if facts is None or facts.role_of(principal) is None:
            raise unknown(id)
        return facts

    async def _kept_facts(self, id: str) -> SessionFacts | None:
        """What is kept of a session that is not open."""
        fact = await self.engine.fact("session", id)
        return msgspec.json.decode(fact.value, type=SessionFacts) if fact else None

    async def _mend(self, session: HostedSession) -> None:
        """Have a session go on whose log could not be written."""
        if session.history.broken:
            await session.mend(await self._lease(session.id))

    async def _open(self, id: str, facts: SessionFacts) -> HostedSession:
        if self.is_draining:
            raise draining()
        async with self._room_for_session(facts.principal):
            lease, last = await self._lease(id), await self.engine.last(id)
            session = HostedSession(id, facts, lease, self, last=last, kept=await self._summaries(id))
            await session.recover()
            self._opened(session)
            return session

    async def _summaries(self, id: str) -> list[bytes]:
        """What is kept of a session's log; it is made again from the log where all of it is lost."""
        found = []
        for kind in summary.KINDS:
            with contextlib.suppress(DamagedLog):
                fact = await self.engine.fact(kind, id)
                found += [fact.value] if fact else []
        return found

    def _opened(self, session: HostedSession) -> None:
        self.live[session.id] = session
        self.metrics.sessions.set(len(self.live))

    async def _lease(self, id: str) -> Lease:
        lease = await self.engine.acquire(id, self._owner, LEASE)
        if lease is None:
            raise Overloaded("another gateway has this session just now", {"retryAfter": RETRY_AFTER})
        return lease

    @contextlib.asynccontextmanager
    async def _room_for_session(self, principal: str) -> AsyncIterator[None]:
        """Room for one more open session, made by closing one nobody needs if there is none."""
        own = [session for session in self.live.values() if session.facts.principal == principal]
        if len(own) + self._opening[principal] >= self.limits.sessions:
            idle = next((session for session in own if session.is_idle), None)
            if idle is None:
                raise exceeded("sessions", self.limits.sessions)
            self._begin_close(idle)  # it is no longer open; how long its agent takes is its own affair
        self._opening[principal] += 1
        try:
            yield
        finally:
            self._opening[principal] -= 1
            if not self._opening[principal]:
                del self._opening[principal]

    async def listed(self, principal: str) -> list[tuple[str, ListedSession]]:
        """The sessions somebody has a part in, the latest first."""
        ids = [key.partition("\n")[2] for key in await self.engine.facts(MEMBER, f"{principal}\n")]
        found = await self.engine.facts_of("session", ids)
        kept = {id: _read_listed(fact.value) for id, fact in found.items()}
        for id in kept.keys() & self.live.keys():
            facts = self.live[id].facts
            known = (
                facts.agent,
                facts.principal,
                facts.cwd,
                facts.updated,
                facts.title,
                facts.archived,
                facts.opening,
            )
            kept[id] = ListedSession(*known)
        return sorted(kept.items(), key=lambda found: (-found[1].updated, found[0]))

    async def save_facts(self, id: str, facts: SessionFacts) -> None:
        await self.engine.put_fact("session", id, msgspec.json.encode(facts))

    async def _save(self, session: HostedSession) -> None:
        session.is_unsaved = False
        session.facts.bytes = session.summary.size
        await self.save_facts(session.id, session.facts)
        newest, older = summary.KINDS
        data, at = msgspec.json.encode(session.summary), session.summary.at
        if at >= session.checkpoint + summary.CHECKPOINT:
            session.checkpoint = at
            await self.engine.put_fact(older, session.id, data)
        await self.engine.put_fact(newest, session.id, data)

    async def share(self, session: HostedSession, principal: str, role: str | None) -> None:
        """Give somebody else a part in a session."""
        if principal == session.facts.principal:
            raise InvalidParams("a session is its owner's already")
        if role not in ("viewer", "editor", "admin", None):
            raise InvalidParams("role is viewer, editor, admin or null")
        key = f"{principal}\n{session.id}"
        if role is None:  # at once, whether that can be kept or not
            session.share(principal, None)
            await self.save_facts(session.id, session.facts)
            await self.engine.drop_fact(MEMBER, key)
        else:
            roles: Any = {**session.facts.roles, principal: role}
            await self.engine.put_fact(MEMBER, key, b"")
            await self.save_facts(session.id, msgspec.structs.replace(session.facts, roles=roles))
            session.share(principal, roles[principal])

    async def delete(self, id: str, at_agent: ForgetAtAgent | None = None) -> None:
        """End a session and forget it for good, once its agent has; it is kept where the agent fails at that."""
        await self.finish(self._delete(id, at_agent=at_agent))

    async def _delete(
        self, id: str, unless_used_after: float | None = None, at_agent: ForgetAtAgent | None = None
    ) -> bool:
        """Delete a session; false for one that was used since a moment, and is therefore kept."""
        async with self._locks.hold(id):
            if unless_used_after is not None and not await self._is_unused(id, unless_used_after):
                return False
            if session := self.live.get(id):
                self._begin_close(session)
            await self._closed(id)
            if at_agent:
                with contextlib.suppress(DamagedLog):  # of what cannot be read nobody knows what its agent calls it
                    await at_agent(await self._kept_facts(id))
            await forget_session(self.engine, id)
            return True

    async def _is_unused(self, id: str, since: float) -> bool:
        """Whether a session is as it was at a moment; asked with its lock held."""
        if id in self.live or id in self._closing:
            return False
        facts = await self._kept_facts(id)
        return facts is not None and facts.updated <= since

    async def close(self, session: HostedSession, *, is_last: bool = False) -> None:
        """End a session for everybody; it can be loaded again.  `is_last` when its agents end, too."""
        await asyncio.shield(self._begin_close(session, is_last=is_last))

    def _begin_close(self, session: HostedSession, *, is_last: bool = False) -> "asyncio.Task[None]":
        """From now on nobody finds the session, and who wants to open it again waits until it is closed."""
        if self.live.get(session.id) is session:
            del self.live[session.id]
            self.metrics.sessions.set(len(self.live))
            self._closing[session.id] = self._chores.start(self._end(session, is_last))
        return self._closing.get(session.id) or self._chores.start(asyncio.sleep(0))

    async def _end(self, session: HostedSession, is_last: bool) -> None:
        try:
            await session.close(is_last=is_last)
            self.processes.end(session.facts.agent, session.facts.principal, session.id)
            with contextlib.suppress(EngineFailure, Fenced):
                await self._save(session)
                await self.engine.release(session.history.lease)
        finally:
            del self._closing[session.id]

    async def _closed(self, id: str) -> None:
        """Wait until a session that is being closed is."""
        if closing := self._closing.get(id):
            await asyncio.wait([closing])

    def let_go(self, session: HostedSession) -> None:
        self._begin_close(session)

    async def finish(self, work: Work[T], undo: Callable[[T], Work[None]] | None = None) -> T:
        """Have something done to its end, also when whoever waits for it is cancelled; then it is undone."""
        return await self._chores.finish(work, undo)

    def start(self, work: Work[object]) -> None:
        """Have something done that nobody waits for."""
        self._chores.start(work)

    # Leases, and what nobody needs

    def _begin_upkeep(self, _: object = None) -> None:
        """Look after everything for ever; a round that fails is followed by others."""
        self._renewing = owned(self._keep_up(), "upkeep", self._begin_upkeep)

    async def _keep_up(self) -> None:
        while True:
            await asyncio.sleep(RENEW_EVERY)
            await self.upkeep()

    async def upkeep(self) -> None:
        """Renew leases, save what is known of sessions, mend logs, and end what nobody needs."""
        for session in list(self.live.values()):
            try:
                await self._look_after(session)
            except Fenced as exc:
                log.error("session %s is somebody else's: %s", session.id, exc)
                self.let_go(session)
            except Error as exc:
                log.error("session %s: %s", session.id, exc)
            if self._idle.lasts(session.id, IDLE, is_idle=session.is_idle):
                self._begin_close(session)
        self._idle.keep(self.live)
        self.processes.tidy()

    async def _look_after(self, session: HostedSession) -> None:
        if session.history.broken:
            async with self._locks.hold(session.id):
                if self.live.get(session.id) is session:
                    await self._mend(session)
        await self.engine.renew(session.history.lease, LEASE)
        if session.is_unsaved:
            await self._save(session)


def unknown(id: str) -> ResourceNotFound:
    """What is said of a session that is not, and of one that is somebody else's."""
    return ResourceNotFound("Session not found", {"sessionId": id})


@contextlib.asynccontextmanager
async def running(gateway: Gateway) -> AsyncIterator[Gateway]:
    """A gateway and its engine, both ended together."""
    try:
        async with gateway:
            yield gateway
    finally:
        with contextlib.suppress(Error):
            await gateway.engine.close()
