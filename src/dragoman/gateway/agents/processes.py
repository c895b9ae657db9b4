"""The agents' processes: started when a client needs one, ended when nobody does."""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from ...client.connecting import reach
from ...errors import AgentStartError, InternalError, Overloaded
from ...host.isolation.hiding import Hidden, Hiding
from ...host.isolation.isolation import Isolation, reach_hiding
from ...host.terminals.children import Keeper
from ...host.terminals.sandbox.sandbox import Sandbox
from ...transports import Transport
from ...transports.process import program
from ..access.budget import OF_PROCESS, GatewayBudget, Share
from ..access.introductions import Introduction
from ..access.limits import RETRY_AFTER, draining
from ..access.principals import PerPrincipal, PrincipalName
from ..access.workspaces import Workspaces
from ..metrics import Metrics
from ..workers import DetachedWork, Locks
from .failures import AgentFailures
from .upstream import Hosted, Upstream

log = logging.getLogger("dragoman")

IDLE = 60.0  # seconds that an agent without sessions keeps running

# The key of a principal's process: the agent's name, the introduction, and the session if it serves only one.
Served = tuple[str, Introduction, str]


class Processes:
    """All processes of one gateway; `errands` are background tasks, `clock` measures idle time."""

    def __init__(
        self,
        agents: Mapping[str, Hosted],
        workspaces: Workspaces,
        budget: GatewayBudget,
        metrics: Metrics,
        errands: DetachedWork,
        clock: Callable[[], float],
    ) -> None:
        for name, hosted in agents.items():
            if hosted.isolated and (isinstance(hosted.target, str) or not isinstance(hosted.target, Sequence)):
                raise ValueError(f"{name} is not a command, so it cannot be isolated")
            if hosted.isolated and workspaces.pattern is None:
                raise ValueError(f"{name} cannot be isolated without a workspace")
            if hosted.isolated and not workspaces.is_per_principal:
                raise ValueError(f"{name} can be isolated only in a workspace with {{principal}} in its path")
        self.running: PerPrincipal[Served, Upstream] = PerPrincipal()
        self.is_draining = False
        self.agents, self._workspaces, self._budget = agents, workspaces, budget
        self._metrics, self._errands = metrics, errands
        self._shares: dict[Upstream, Share] = {}  # shares of the budget
        self._died: PerPrincipal[Served, bool] = PerPrincipal()  # agents whose last process ended during work
        self._idle = Idleness(clock)
        self._locks = Locks()
        self.failures = AgentFailures(lambda: budget.limits.agent_failures, clock)
        self.stopped: set[str] = set()  # agents that the operator has stopped
        self._clock = clock
        self._isolations: dict[str, Isolation] = {}  # by agent
        self._keeper = Keeper()  # the hidden paths for agents that are kept apart
        self.hidden: Hidden | None = None  # hides paths from agents that are kept apart, if that is possible
        self._sandbox = Sandbox()  # the sandbox of commands; one for all agents, so that it is tried once

    async def any(self, agent: str, principal: PrincipalName, introduction: Introduction) -> Upstream:
        """A principal's newest process with this introduction; one is started if none runs."""
        for (name, told, _), upstream in reversed(self.running.of(principal).items()):
            if (name, told) == (agent, introduction) and upstream.is_alive:
                return upstream
        return await self.get(agent, principal, introduction)

    async def get(
        self, agent: str, principal: PrincipalName, introduction: Introduction, session: str = ""
    ) -> Upstream:
        """A running process with this introduction, started if necessary; a session may have its own."""
        served = agent, introduction, session if self.agents[agent].process_per == "session" else ""
        async with self._locks.hold((principal, served)):
            self._idle.used((principal, served))  # the session that needs it is not attached yet
            found = self.running.find(principal, served)
            return found if found and found.is_alive else await self._start(principal, served)

    async def _start(self, principal: PrincipalName, served: Served) -> Upstream:
        agent, introduction, _ = served
        if self.is_draining:
            raise draining()
        if agent in self.stopped:
            raise Overloaded(f"the agent {agent} is stopped", {"kind": "agent_stopped", "retryAfter": RETRY_AFTER})
        self.failures.check(principal, agent)
        share = await self._room(principal)
        hosted = self.agents[agent]
        try:
            hiding = self._hiding(hosted, principal)
            way = self._way_to(agent, principal, hiding)
            upstream = Upstream(agent, hosted, principal, introduction, way, self._ended, self._sandbox, hiding)
            await upstream.start()
        except BaseException as exc:
            share.give_back()
            if not isinstance(exc, AgentStartError):
                raise
            self.failures.add(principal, agent)
            self._metrics.agent_start_failures.add(1, agent)
            log.error("the agent %s does not start: %s", agent, exc)
            told = "the agent could not be started; the gateway's log says why"
            raise InternalError(told, {"kind": "agent_start"}) from None
        self._metrics.agent_starts.add(1, agent)
        self.running.put(principal, served, upstream)
        self._shares[upstream] = share
        if self._died.drop(principal, served):
            self._metrics.restarts.add()
        self._metrics.processes.add(1)
        return upstream

    async def _room(self, principal: PrincipalName) -> Share:
        """Make room for one more process, if necessary by ending one that is idle.

        That is one without sessions, or one whose sessions are all idle: they continue in another process.
        """
        while limit := self._budget.reached("processes", principal):
            is_anybodys = limit == "processes"
            running = [one for whose, _, one in self.running.entries() if is_anybodys or whose == principal]
            unused = [one for one in running if one.is_idle] or [one for one in running if one.is_spare]
            if not unused:
                break
            await self._errands.finish(unused[0].close())
        self._budget.check_descriptors(OF_PROCESS)
        return self._budget.take("processes", principal)

    def _hiding(self, hosted: Hosted, principal: PrincipalName) -> Hiding | None:
        """Hides the gateway's own files and other principals' workspaces from an agent that is kept apart."""
        if self.hidden is None or not hosted.apart:
            return None
        if not self._workspaces.is_per_principal:
            return Hiding(self.hidden)
        with self._workspaces.root(principal) as own:
            return Hiding(self.hidden._replace(shown=(*self.hidden.shown, own.path)))

    def _way_to(
        self, agent: str, principal: PrincipalName, hiding: Hiding | None
    ) -> AbstractAsyncContextManager[Transport]:
        """A context manager that starts or reaches an agent."""
        hosted = self.agents[agent]
        if hiding and isinstance(hosted.target, Sequence) and not isinstance(hosted.target, str):
            argv = [program(hosted.target, hosted.env), *hosted.target[1:]]
            return reach_hiding(self._keeper, hiding, argv, hosted.cwd or ".", hosted.env)
        if not hosted.isolated:
            return reach(hosted.target, cwd=hosted.cwd, env=hosted.env, inherit_env=hosted.env is None)
        assert isinstance(hosted.target, Sequence)  # checked in `__init__`
        if agent not in self._isolations:
            self._isolations[agent] = Isolation(hosted.visible, hosted.network)
        return self._isolations[agent].reach(
            hosted.target, functools.partial(self._workspaces.root, principal), hosted.env
        )

    def _ended(self, upstream: Upstream) -> None:
        for principal, served, found in self.running.entries():
            if found is upstream:
                self.running.drop(principal, served)
                if upstream.has_failed:
                    self.failures.add(principal, served[0])
                if upstream.parties_lost and upstream.has_failed:
                    self._died.put(principal, served, True)
                self._metrics.processes.add(-1)
                self._shares.pop(upstream).give_back()
                self._errands.start(upstream.close())

    async def restart(self, agent: str, principal: str | None = None) -> int:
        """End an agent's processes, for everybody or for one principal; the next prompt starts another.

        Returns how many there were.  A stopped agent may be started again afterwards.
        """
        self.stopped.discard(agent)
        self.failures.forget(agent)
        running = [
            upstream
            for whose, (name, *_), upstream in self.running.entries()
            if name == agent and principal in (None, whose)
        ]
        await asyncio.gather(*(self._errands.finish(upstream.close()) for upstream in running))
        return len(running)

    async def stop(self, agent: str) -> int:
        """End an agent's processes and start none until `restart`."""
        self.stopped.add(agent)
        running = [upstream for _, (name, *_), upstream in self.running.entries() if name == agent]
        await asyncio.gather(*(self._errands.finish(upstream.close()) for upstream in running))
        return len(running)

    def end(self, agent: str, principal: PrincipalName, session: str) -> None:
        """End the process of a session that has its own."""
        for served in [served for served in self._died.of(principal) if served[::2] == (agent, session)]:
            self._died.drop(principal, served)
        for served, own in self.running.of(principal).items():
            if served[::2] == (agent, session):
                self._errands.start(own.close())

    def tidy(self) -> None:
        """End processes that have been idle for a while or do not read their messages."""
        now, most = self._clock(), self._budget.limits.stuck_seconds
        for _, _, upstream in self.running.entries():
            if upstream.has_not_read_for(now) > most:
                self._errands.start(upstream.end_failed(f"it has read nothing for {most:g} s"))
        self.failures.tidy()
        running = {(principal, served): upstream for principal, served, upstream in self.running.entries()}
        for place, upstream in running.items():
            if self._idle.lasts(place, IDLE, is_idle=not upstream.is_needed):
                self._errands.start(upstream.close())
        self._idle.keep(running)

    async def close(self) -> None:
        """End them all."""
        await asyncio.gather(*(upstream.close() for _, _, upstream in self.running.entries()))
        for close in (*(isolation.close for isolation in self._isolations.values()), self._keeper.close):
            with contextlib.suppress(OSError):
                await close()


class Idleness:
    """The time since which each key has been idle."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[Hashable, float] = {}

    def lasts(self, key: Hashable, most: float, *, is_idle: bool) -> bool:
        """Whether a key is idle now and has been for long."""
        if not is_idle:
            self._since.pop(key, None)
            return False
        now = self._clock()
        return now - self._since.setdefault(key, now) > most

    def used(self, key: Hashable) -> None:
        """Note that a key is in use."""
        self._since.pop(key, None)

    def keep(self, keys: Collection[Hashable]) -> None:
        """Drop all keys except these."""
        self._since = {key: since for key, since in self._since.items() if key in keys}
