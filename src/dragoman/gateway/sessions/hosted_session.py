"""A session that several people share: its log, its agent, its turns, its questions and its viewers.

The agent's messages are logged and then sent to every viewer.  The holder of the session's lease writes; a process
that finds another holder closes the session at once.
"""

import asyncio
import functools
import logging
from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec import Raw

from ...errors import ResourceNotFound
from ..access.introductions import Introduction
from ..access.roles import Role
from ..agents.mcp_servers import SessionServers
from ..agents.upstream import Upstream
from ..log import logs
from ..log.engine import Fenced, Lease, LogEntry
from ..log.logs import records
from ..log.records import (
    Answered,
    PromptEnded,
    changed,
    members,
    optional,
    own_frame,
    raw,
    text,
    update_frame,
    update_params,
)
from ..log.session_facts import MAX_STATED, SessionFacts
from ..log.summary import LogSummary
from ..workers import owned
from .agent_link import AgentLink
from .fitting import Fit
from .history import History
from .outcomes import LOST
from .presence import show_presence, show_queue, tell_all
from .prompt_queue import PromptQueue
from .questions import CANCELLED, OpenQuestions
from .services import SessionServices
from .session_clients import SessionClients
from .viewer import ConnectedClient, Viewer

log = logging.getLogger("dragoman")

T = TypeVar("T")

HELD_AT = 4 * 1024 * 1024  # bytes that are not durable yet before an agent has to wait
LAST_WORDS = 2.0  # seconds for the viewers of a closed session to take their remaining updates
NAMES = ("sessionId", "senderSessionId", "recipientSessionId")  # of sessions, in updates about others
MAX_CHILDREN = 1000  # sessions begun by a session's agent that are remembered
LOOK_AGAIN = 1.0  # the least seconds between two checks whether a question still waits for a client


class HostedSession:
    """One session; call `recover` for an existing one before anybody views it."""

    def __init__(
        self,
        id: str,
        facts: SessionFacts,
        lease: Lease,
        services: SessionServices,
        *,
        last: int = 0,
        kept: Iterable[bytes] = (),
    ) -> None:
        self.id, self.facts = id, facts
        self.summary = LogSummary.read(kept, last)
        self.checkpoint = 0  # the record number of the older stored summary
        self.is_unsaved = False  # its stored facts are out of date
        self.viewers: list[Viewer] = []
        self._services = services
        self.history = History(services.engine, lease, last, services.metrics, self._publish, self._broke)
        self.servers = SessionServers(id, facts)
        self.link = AgentLink(id, facts, self, self.history, services)
        self.questions = OpenQuestions(
            id, self.history, lambda: list(self.viewers), services.metrics, lambda: self.turns.is_stopping
        )
        self.turns: PromptQueue = PromptQueue(
            id, self.history, self.summary, self.questions, services, link=self.link, moved=self._show_queue
        )
        self.clients = SessionClients(
            self.viewers, self.history, self.servers, self.link, self.turns, services.limits, self.public
        )
        self._children: set[str] = set()  # the sessions that the agent has begun from this one
        self.told_early = 0  # the last record before the agent had opened the session
        self._held: Upstream | None = None
        self._alone: asyncio.TimerHandle | None = None  # runs while no viewer is here
        self._settling: asyncio.Task[None] | None = None  # determines the outcomes of prompts after the log broke
        self._mending = asyncio.Lock()

    # The log

    async def recover(self) -> None:
        """Read the rest of the log, and give the turns that its last writer left open their outcome."""
        async for record in records(self._services.engine, self.id, self.summary.at):
            self.summary.add(record.number, [record.entry])
            self.is_unsaved = True
        for question, method in self.summary.questions.items():
            self._remember(Answered(question, CANCELLED[method]))
        if self.summary.prompts:
            for failure in self.summary.failures():
                self._tell(failure)
        for key in self.summary.prompts:
            self._remember(PromptEnded(key, error=LOST, interrupted=True))
            self._services.metrics.turns.add(1, "interrupted")
        await self.history.settled()

    async def take_over(self, other: "HostedSession") -> None:
        """Begin with the history of another session."""
        async for record in records(self._services.engine, other.id):
            if (params := update_params(record.entry.frame)) is not None:
                entry, found = record.entry, members(params)
                frame = functools.partial(update_frame, found, self.id)
                self.history.add(entry.origin, frame, entry.principal, entry.client)
            if self.history.waiting > HELD_AT:
                await self.history.settled()
        await self.history.settled()

    def _remember(self, record: Answered | PromptEnded) -> None:
        self.history.add("gateway", lambda _: own_frame(record))

    def _tell(self, found: dict[str, Raw]) -> None:
        self.history.add("gateway", lambda number: update_frame(found, self.id, number))

    def _publish(self, first: int, entries: Sequence[LogEntry]) -> None:
        self.summary.add(first, entries)
        self.facts.updated, self.is_unsaved = self._services.clock.now(), True
        for viewer in list(self.viewers):
            viewer.offer(first, entries)
        if self.history.waiting < HELD_AT // 4:
            self._let_speak()

    def _broke(self) -> None:
        """Handle a broken log: viewers get nothing that is not in it."""
        log.error("the log of session %s is broken: %s", self.id, self.history.broken)
        self._let_speak()
        self.questions.cancel_all()
        self._settling = owned(self.turns.settle_broken(), "outcomes of a broken log", self._cannot_settle)
        if isinstance(self.history.broken, Fenced):
            self._services.let_go(self)

    def _cannot_settle(self, why: Exception) -> None:
        for turn in list(self.turns.outcomes.open.values()):
            self.turns.outcomes.lose(turn)

    @property
    def is_sound(self) -> bool:
        """Whether its log can be written and has the outcomes of all ended prompts."""
        return not self.history.broken and not self._mending.locked()

    async def mend(self, lease: Lease) -> None:
        """Continue after the log broke, from what it really holds; all viewers stay."""
        async with self._mending:
            if self._settling:
                await asyncio.wait([self._settling])
            self.history.mend(lease, await self._services.engine.last(self.id))
            try:
                await self.recover()
            finally:
                for viewer in list(self.viewers):
                    viewer.catch_up()

    async def commands(self, after: int) -> Raw | None:
        """The slash commands, for a client that gets only the updates after a record."""
        if not 0 < self.summary.commands <= after:
            return None
        return await self.update(self.summary.commands)

    async def update(self, number: int) -> Raw:
        """The update in the log at a number."""
        found = update_params((await logs.record(self._services.engine, self.id, number)).entry.frame)
        assert found is not None  # the caller has checked it
        return found

    def _let_speak(self) -> None:
        if self._held:
            held, self._held = self._held, None
            held.connection.resume()

    # The interface for the agent (`Party`)

    def heard(self, params: dict[str, Raw]) -> None:
        if self.link.is_swallowing or self.history.broken or self.turns.is_stale or self.turns.is_over:
            return
        self.turns.heard()
        params = self._named(params)
        session = self.public(params)
        self.history.add("agent", lambda number: update_frame(params, session, number))
        if session == self.id:
            self._follow(params.get("update", raw({})))
        if self.history.waiting > HELD_AT and self._held is None and self.link.upstream:
            self._held = self.link.upstream
            self._held.connection.hold()

    @property
    def has_begun(self) -> bool:
        """Whether its agent has begun other sessions from it."""
        return bool(self._children)

    def began(self, id: str) -> bool:
        """Whether its agent has begun this session and still runs."""
        return id in self._children and self.link.upstream is not None and id in self.link.upstream.parties

    def public(self, params: dict[str, Raw]) -> str:
        """The clients' id of a message's session: this one, or one that its agent has begun from it."""
        named = text(params, "sessionId") if self._children else None
        return named if named in self._children else self.id

    def _named(self, params: dict[str, Raw]) -> dict[str, Raw]:
        """An update about sessions that the agent has begun, with the clients' id of this session."""
        data = bytes(params.get("update", b""))
        if b'"subagent_update"' not in data and b'"session_message' not in data:
            return params
        update = optional(params, "update")
        if text(update, "sessionUpdate") == "subagent_update" and self.link.upstream:
            child = text(update, "sessionId")
            if child and child not in self.link.upstream.parties and len(self._children) < MAX_CHILDREN:
                self._children.add(child)
                self.link.upstream.adopt(child, self)
        own, ours = raw(self.facts.upstream), raw(self.id)
        shown = {name: ours if value == own and name in NAMES else value for name, value in update.items()}
        return {**params, "update": raw(shown)}

    def _follow(self, update: Raw) -> None:
        """Store the modes and options for clients that load the session."""
        data = bytes(update)
        if b"_mode_update" not in data and b"_option" not in data and b"_info_update" not in data:
            return
        found = members(update)
        if text(found, "sessionUpdate") == "session_info_update" and "title" in found:
            self.facts.title = None if bytes(found["title"]) == b"null" else text(found, "title")
        if "currentModeId" in found:
            self.set_state(mode=found["currentModeId"])
        elif "configOptions" in found:
            self.set_state(options=found["configOptions"])

    def set_state(self, *, mode: Raw | None = None, options: Raw | None = None) -> None:
        state = members(self.facts.state)
        if mode is not None and (modes := optional(state, "modes")):
            state["modes"] = changed(modes, currentModeId=mode)
        if options is not None:
            state["configOptions"] = options
        if len(bytes(told := raw(state))) <= MAX_STATED:  # otherwise the last value that can be stored stays
            self.facts.state = told

    def introduction(self) -> Introduction:
        """The introduction for the agent.

        It stays the same while a client with it, or no client, is here; otherwise it is that of the first client
        that may prompt.
        """
        known = [viewer.client.introduction for viewer in self.viewers if viewer.may_edit]
        return known[0] if known and self.facts.introduction not in known else self.facts.introduction

    async def asked(self, method: str, params: dict[str, Raw]) -> Raw:
        return await self.questions.put(method, {**params, "sessionId": raw(self.public(params))})

    def opened(self) -> None:
        """Note that the agent has opened the session; its earlier updates came before its answer."""
        self.told_early = self.history.last

    def told(self, method: str, params: Raw) -> None:
        """Pass on another notification of the agent, in its order among the updates."""
        found = members(params)
        passed = changed(found, sessionId=self.public(found)) if "sessionId" in found else params
        for viewer in list(self.viewers):
            if viewer.fit.hears(method):
                viewer.pass_on(self.history.last, method, passed)

    def lost(self) -> None:
        self.link.upstream = self._held = None

    # People

    def join(self, client: ConnectedClient, *, after: int, echo: bool = False, most: Role = "admin") -> Viewer:
        """Let a client view the session from a record on; with `echo`, it also gets its own messages.

        The viewer has its principal's role in the session, or at most the role `most`.
        """
        role = self.facts.role_of(client.name)
        if role is None:  # the role was just revoked
            raise ResourceNotFound("Session not found", {"sessionId": self.id})
        if self._alone:
            self._alone.cancel()
            self._alone = None
        viewer = Viewer(
            self.id,
            self.history,
            self._services.engine,
            client,
            role,
            most=most,
            after=min(after, self.history.durable),
            limits=self._services.limits,
            fit=self._fit(client),
            evict=self._evict,
            echo_until=self.history.durable if echo else 0,
        )
        self.viewers.append(viewer)
        self._services.metrics.viewers.add(1)
        self._replace_lost(client)
        return viewer

    def _fit(self, client: ConnectedClient) -> Fit:
        """The updates that a client can take in this session; it may not know terminals that others lend."""
        of_host = self._services.processes.agents[self.facts.agent].workspace == "host"
        are_lent = of_host or self.facts.introduction.offers.terminal
        return Fit(client.offers, has_terminals=client.offers.terminal or not are_lent)

    def _replace_lost(self, client: ConnectedClient) -> None:
        """Replace the viewer of a client that returns before its old connection was noticed as lost."""
        known = (client.name, client.client_id)
        for viewer in [viewer for viewer in self.viewers if viewer.client is not client]:
            if (viewer.client.name, viewer.client.client_id) == known:
                self.leave(viewer)
                viewer.client.connection.hang_up()

    def ready(self, viewer: Viewer, *, is_asked: bool = True) -> None:
        """Begin to send a viewer updates and, unless `is_asked` is false, the open questions."""
        if viewer in self.viewers:
            self.clients.came.set()
            viewer.open()
            if is_asked:
                self.questions.offer_all(viewer)
            self._show_presence()
            self._show_queue()

    def leave(self, viewer: Viewer) -> None:
        """Remove a viewer; running turns continue, unless the session's policy says otherwise."""
        if viewer in self.viewers:
            self.viewers.remove(viewer)
            viewer.leave()
            self.servers.withdraw(viewer.client)
            self._services.metrics.viewers.add(-1)
            self._show_presence()
            if not self.viewers and (patience := self.facts.detached.cancel_after) is not None:
                self._alone = asyncio.get_running_loop().call_later(patience, self._abandon, patience)

    def _abandon(self, patience: float) -> None:
        """Cancel everything after nobody has returned, unless a question waits for a client."""
        self._alone = None
        if self.facts.detached.unless_asking and self.questions:
            again = max(patience, LOOK_AGAIN)
            self._alone = asyncio.get_running_loop().call_later(again, self._abandon, patience)
        else:
            self.turns.cancel_all()

    def share(self, principal: str, role: Role | None) -> None:
        """Give another principal a role in the session, or revoke it."""
        if role is None:
            self.facts.roles.pop(principal, None)
        else:
            self.facts.roles[principal] = role
        for viewer in [viewer for viewer in self.viewers if viewer.client.name == principal]:
            if role is None:
                self._send_away(viewer, "it is no longer shared with you")
            else:
                viewer.role = role
                (self.questions.offer_all if viewer.may_edit else self.questions.take_away)(viewer)
        self._show_presence()

    def _send_away(self, viewer: Viewer, why: str) -> None:
        viewer.notify("_dragoman/session/detached", {"reason": why, "after": viewer.cursor})
        self.leave(viewer)

    def _evict(self, viewer: Viewer) -> None:
        if viewer not in self.viewers:
            return
        if not viewer.client.connection.closed:
            self._services.metrics.evictions.add()
            self._send_away(viewer, "you do not keep up")
            viewer.client.connection.hang_up()
        self.leave(viewer)

    def _show_presence(self) -> None:
        show_presence(self.viewers)

    def _show_queue(self) -> None:
        show_queue(self.viewers, self.turns.running, self.turns.waiting)

    # Its end

    @property
    def is_idle(self) -> bool:
        return not self.viewers and not self.turns.is_busy and not self.questions

    def check_room(self) -> None:
        if self.summary.size > self._services.limits.session_bytes:
            raise self._services.budget.refuse("session_bytes")

    async def close(self, *, is_last: bool = False) -> None:
        """End running turns, store everything and release all viewers; the agent need not know if it ends, too."""
        async with self._mending:
            await self.turns.close(is_last=is_last)
        self.questions.cancel_all()
        await self.history.close()
        if self._settling:
            await asyncio.wait([self._settling])
        await tell_all(self.viewers, self.history.durable, LAST_WORDS)
        for viewer in list(self.viewers):
            self._send_away(viewer, "the gateway stopped" if is_last else "the session was closed")
        if self._alone:
            self._alone.cancel()
        await self.link.close(is_told=not is_last)
