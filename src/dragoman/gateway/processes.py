"""The agents' processes: which run, and for whom; started when somebody needs one, ended when nobody does."""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from msgspec import Raw

from ..connecting import reach
from ..errors import AgentStartError, InternalError
from ..transports import Transport
from .checks import Checks
from .isolation import Isolation
from .limits import Limits, draining, exceeded
from .metrics import Metrics
from .upstream import Hosted, Upstream

log = logging.getLogger("dragoman")

IDLE = 60.0  # seconds an agent without sessions keeps running

Place = tuple[str, str, str]  # whom a process serves: an agent's name, a principal, a session if it has its own
Chore = Callable[[Coroutine[Any, Any, None]], None]


class Processes:
    """All of one gateway's; `chore` has something done that nobody waits for."""

    def __init__(
        self, agents: Mapping[str, Hosted], checks: Checks, limits: Limits, metrics: Metrics, chore: Chore
    ) -> None:
        for name, hosted in agents.items():
            if hosted.isolated and (isinstance(hosted.target, str) or not isinstance(hosted.target, Sequence)):
                raise ValueError(f"{name} is no command, so it cannot be isolated")
            if hosted.isolated and checks.workspace is None:
                raise ValueError(f"{name} is to be isolated, but has no workspace to be isolated in")
        self.running: dict[Place, Upstream] = {}
        self.is_draining = False
        self._agents, self._checks, self._limits, self._metrics, self._chore = (
            agents,
            checks,
            limits,
            metrics,
            chore,
        )
        self._starting: Counter[str] = Counter()  # by principal
        self._died: set[Place] = set()  # whose last process ended by itself in the middle of something
        self._idle = Idleness()
        self._locks: dict[Place, asyncio.Lock] = {}
        self._isolations: dict[str, Isolation] = {}  # by agent
        self._greetings: dict[str, dict[str, Raw]] = {}

    async def greeting(self, agent: str, principal: str) -> dict[str, Raw]:
        """What an agent answers to `initialize`; it is started once to find out."""
        if agent not in self._greetings:
            self._greetings[agent] = (await self.get(agent, principal)).greeting
        return self._greetings[agent]

    async def get(self, agent: str, principal: str, session: str = "") -> Upstream:
        """A running agent of a principal, started if need be; of a session, if each has its own."""
        place = agent, principal, session if self._agents[agent].process_per == "session" else ""
        async with self._locks.setdefault(place, asyncio.Lock()):
            found = self.running.get(place)
            return found if found and found.is_alive else await self._start(place)

    async def _start(self, place: Place) -> Upstream:
        agent, principal, _ = place
        if self.is_draining:
            raise draining()
        own = sum(owner == principal for _, owner, _ in self.running) + self._starting[principal]
        if own >= self._limits.processes:
            raise exceeded("processes", self._limits.processes)
        upstream = Upstream(self._agents[agent], self._way_to(agent, principal), self._ended)
        self._starting[principal] += 1
        try:
            await upstream.start()
        except AgentStartError as exc:
            log.error("the agent %s does not start: %s", agent, exc)
            raise InternalError("the agent could not be started", {"kind": "agent_start"}) from None
        finally:
            self._starting -= Counter([principal])  # which forgets those who start none
        self.running[place] = upstream
        if place in self._died:
            self._died.discard(place)
            self._metrics.restarts.add()
        self._metrics.processes.add(1)
        return upstream

    def _way_to(self, agent: str, principal: str) -> AbstractAsyncContextManager[Transport]:
        """What starts or reaches an agent."""
        hosted = self._agents[agent]
        if not hosted.isolated:
            return reach(hosted.target, env=hosted.env)
        root = self._checks.root(principal)
        assert root and isinstance(hosted.target, Sequence)  # as `__init__` has made sure
        isolation = self._isolations.setdefault(agent, Isolation(hosted.visible))
        return isolation.reach(hosted.target, root, hosted.env)

    def _ended(self, upstream: Upstream) -> None:
        for place, found in list(self.running.items()):
            if found is upstream:
                del self.running[place]
                if upstream.parties_lost:
                    self._died.add(place)
                self._metrics.processes.add(-1)
                self._chore(upstream.close())

    def end(self, agent: str, principal: str, session: str) -> None:
        """End the process of a session that had its own."""
        place = agent, principal, session
        self._died.discard(place)
        if own := self.running.get(place):
            self._chore(own.close())

    async def tidy(self) -> None:
        """End what nobody has needed for a while."""
        for place, upstream in list(self.running.items()):
            if self._idle.lasts(place, IDLE, is_idle=not upstream.parties):
                await upstream.close()
        self._idle.keep(self.running)
        for unused in [place for place, lock in self._locks.items() if not lock.locked()]:
            del self._locks[unused]

    async def close(self) -> None:
        """End them all."""
        await asyncio.gather(*(upstream.close() for upstream in list(self.running.values())))
        for isolation in self._isolations.values():
            with contextlib.suppress(OSError):
                await isolation.close()


class Idleness:
    """Since when nobody has needed something."""

    def __init__(self) -> None:
        self._since: dict[Hashable, float] = {}

    def lasts(self, key: Hashable, most: float, *, is_idle: bool) -> bool:
        """Whether something has been idle for long, and is now."""
        if not is_idle:
            self._since.pop(key, None)
            return False
        return time.monotonic() - self._since.setdefault(key, time.monotonic()) > most

    def keep(self, keys: Collection[Hashable]) -> None:
        """Forget all but these."""
        self._since = {key: since for key, since in self._since.items() if key in keys}
