"""The gateway: which agents there are, which processes run for whom, which sessions are open.

It holds nothing that may not be lost with it: sessions are opened again from their logs when somebody wants them.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any, Self

import msgspec
from msgspec import Raw

from ..errors import Error, InvalidParams, Overloaded, ResourceNotFound
from .card import Card, Detached
from .checks import Checks
from .engine import Engine, EngineFailure, Fenced, Lease
from .limits import RETRY_AFTER, Limits, draining, exceeded
from .logins import Logins
from .metrics import Metrics
from .processes import Idleness, Processes
from .records import changed, members, raw
from .shared import Shared
from .upstream import Hosted

log = logging.getLogger("dragoman")

LEASE = 15.0  # seconds without a word after which a session is anybody's
RENEW_EVERY = 5.0
IDLE = 1800.0  # seconds a session nobody sits at stays open
PAGE = 100  # sessions in one answer to session/list
ID_BYTES = 24


class Gateway:
    """Hosts agents; use it as a context."""

    def __init__(
        self,
        engine: Engine,
        agents: Mapping[str, Hosted],
        *,
        default: str | None = None,
        limits: Limits = Limits(),  # noqa: B008 - it cannot change
        checks: Checks = Checks(),  # noqa: B008
        detached: Detached = Detached(),  # noqa: B008
    ) -> None:
        if not agents:
            raise ValueError("a gateway needs at least one agent")
        self.engine, self.agents, self.limits, self.checks = engine, agents, limits, checks
        self.detached = detached
        self.default = default or next(iter(agents))
        self.metrics = Metrics()
        self.logins = Logins()
        self.processes = Processes(agents, checks, limits, self.metrics, self._chore)
        self.live: dict[str, Shared] = {}
        self.is_draining = False
        self._owner = ""
        self._opening: Counter[str] = Counter()  # sessions on their way, by principal
        self._idle = Idleness()
        self._locks: dict[str, asyncio.Lock] = {}  # by session
        self._chores: set[asyncio.Task[None]] = set()
        self._renewing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        name = await self.engine.fact("gateway", "owner")
        self._owner = name.value.decode() if name else secrets.token_hex(8)
        if name is None:
            await self.engine.put_fact("gateway", "owner", self._owner.encode())
        self._renewing = asyncio.create_task(self._keep_up(), name="leases")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._renewing
        self._renewing.cancel()
        await asyncio.wait([self._renewing])
        await asyncio.gather(*(self.close(shared, is_last=True) for shared in list(self.live.values())))
        while self._chores:
            await asyncio.wait(self._chores)
        await self.processes.close()
        while self._chores:
            await asyncio.wait(self._chores)

    async def drain(self, patience: float) -> None:
        """Take nothing new, and give what runs some time to finish."""
        self.is_draining = self.processes.is_draining = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await asyncio.gather(*(shared.turns.finished() for shared in self.live.values()))

    # Sessions

    async def new(self, agent: str, principal: str, found: dict[str, Raw]) -> tuple[Shared, Raw]:
        """Open a new session; gives it, and what its client is answered."""
        if self.is_draining:
            raise draining()
        cwd = self.checks.opening(found, principal, self.limits)
        if len(await self.engine.facts("seat", f"{principal}\n")) >= self.limits.kept:
            raise exceeded("kept", self.limits.kept)
        async with self._room_for_session(principal):
            return await self._new(agent, principal, cwd, found)

    async def _new(self, agent: str, principal: str, cwd: str, found: dict[str, Raw]) -> tuple[Shared, Raw]:
        id = "sess_" + secrets.token_urlsafe(ID_BYTES)
        now = time.time()
        card = Card(
            *(agent, principal, cwd, raw(found)), created=now, updated=now, detached=self.detached.asked_for(found)
        )
        upstream = await self.processes.get(agent, principal, id)
        shared = Shared(id, card, await self._lease(id), self)
        try:
            result = await shared.link.open(upstream)
            card.state = changed({name: value for name, value in members(result).items() if name != "sessionId"})
            await self.engine.put_fact("seat", f"{principal}\n{id}", b"")
            await self.save_card(id, card)
        except BaseException:
            upstream.parties.pop(card.upstream, None)
            await self.engine.forget(id)
            raise
        self._opened(shared)
        return shared, changed(members(result), sessionId=id)

    async def find(self, id: str, principal: str) -> Shared:
        """A session somebody has a part in, opened if need be; all others do not exist."""
        shared = self.live.get(id)
        if shared and shared.card.role_of(principal):
            return shared
        async with self._locks.setdefault(id, asyncio.Lock()):
            fact = await self.engine.fact("session", id)
            card = msgspec.json.decode(fact.value, type=Card) if fact else None
            if card is None or card.role_of(principal) is None:
                raise unknown(id)
            if (shared := self.live.get(id)) and not shared.history.broken:
                return shared
            return await self._open(id, card)

    async def _open(self, id: str, card: Card) -> Shared:
        if self.is_draining:
            raise draining()
        async with self._room_for_session(card.principal):
            lease, last = await self._lease(id), await self.engine.last(id)
            summary = await self.engine.fact("summary", id)
            shared = Shared(id, card, lease, self, last=last, summary=summary.value if summary else None)
            await shared.recover()
            self._opened(shared)
            return shared

    def _opened(self, shared: Shared) -> None:
        self.live[shared.id] = shared
        self.metrics.sessions.set(len(self.live))

    async def _lease(self, id: str) -> Lease:
        lease = await self.engine.acquire(id, self._owner, LEASE)
        if lease is None:
            raise Overloaded("another gateway has this session just now", {"retryAfter": RETRY_AFTER})
        return lease

    @contextlib.asynccontextmanager
    async def _room_for_session(self, principal: str) -> AsyncIterator[None]:
        """Room for one more open session, made by closing one nobody needs if there is none."""
        own = [shared for shared in self.live.values() if shared.card.principal == principal]
        if len(own) + self._opening[principal] >= self.limits.sessions:
            idle = next((shared for shared in own if shared.is_idle), None)
            if idle is None:
                raise exceeded("sessions", self.limits.sessions)
            await self.close(idle)
        self._opening[principal] += 1
        try:
            yield
        finally:
            self._opening[principal] -= 1
            if not self._opening[principal]:
                del self._opening[principal]

    async def cards(self, principal: str) -> list[tuple[str, Card]]:
        """The sessions somebody has a part in, the latest first."""
        ids = [key.partition("\n")[2] for key in await self.engine.facts("seat", f"{principal}\n")]
        facts = [(id, await self.engine.fact("session", id)) for id in ids]
        found = [
            (id, self.live[id].card if id in self.live else msgspec.json.decode(fact.value, type=Card))
            for id, fact in facts
            if fact
        ]
        return sorted(found, key=lambda pair: -pair[1].updated)

    async def save_card(self, id: str, card: Card) -> None:
        await self.engine.put_fact("session", id, msgspec.json.encode(card))

    async def _save(self, shared: Shared) -> None:
        shared.is_unsaved = False
        await self.save_card(shared.id, shared.card)
        await self.engine.put_fact("summary", shared.id, msgspec.json.encode(shared.summary))

    async def share(self, shared: Shared, principal: str, role: str | None) -> None:
        """Give somebody else a part in a session."""
        if principal == shared.card.principal:
            raise InvalidParams("a session is its owner's already")
        if role not in ("viewer", "editor", "admin", None):
            raise InvalidParams("role is viewer, editor, admin or null")
        shared.share(principal, role)  # type: ignore[arg-type]
        key = f"{principal}\n{shared.id}"
        await (self.engine.put_fact("seat", key, b"") if role else self.engine.drop_fact("seat", key))
        await self.save_card(shared.id, shared.card)

    async def delete(self, shared: Shared) -> None:
        """End a session and forget it for good."""
        await self.close(shared)
        for principal in (shared.card.principal, *shared.card.roles):
            await self.engine.drop_fact("seat", f"{principal}\n{shared.id}")
        for kind in ("session", "summary"):
            await self.engine.drop_fact(kind, shared.id)
        await self.engine.forget(shared.id)

    async def close(self, shared: Shared, *, is_last: bool = False) -> None:
        """End a session for everybody; it can be loaded again.  `is_last` when its agents end, too."""
        if self.live.get(shared.id) is shared:
            del self.live[shared.id]
            self.metrics.sessions.set(len(self.live))
        await shared.close(is_last=is_last)
        self.processes.end(shared.card.agent, shared.card.principal, shared.id)
        with contextlib.suppress(EngineFailure):
            await self._save(shared)
            await self.engine.release(shared.history.lease)

    def let_go(self, shared: Shared) -> None:
        if self.live.get(shared.id) is shared:
            del self.live[shared.id]
            self._chore(shared.close())

    # Leases, and what nobody needs

    async def _keep_up(self) -> None:
        while True:
            await asyncio.sleep(RENEW_EVERY)
            for shared in list(self.live.values()):
                try:
                    await self.engine.renew(shared.history.lease, LEASE)
                except Fenced as exc:
                    log.error("session %s is somebody else's: %s", shared.id, exc)
                    self.let_go(shared)
                except EngineFailure as exc:
                    log.error("%s", exc)
                if shared.is_unsaved:
                    with contextlib.suppress(EngineFailure):
                        await self._save(shared)
            await self._tidy()

    async def _tidy(self) -> None:
        for shared in list(self.live.values()):
            if self._idle.lasts(shared.id, IDLE, is_idle=shared.is_idle):
                await self.close(shared)
        self._idle.keep(self.live)
        for unused in [id for id, lock in self._locks.items() if not lock.locked()]:
            del self._locks[unused]
        await self.processes.tidy()

    def _chore(self, work: Coroutine[Any, Any, None]) -> None:
        chore = asyncio.create_task(work)
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)


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
