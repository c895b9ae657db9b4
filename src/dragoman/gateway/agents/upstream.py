"""A gateway's connection to an agent's process: a raw relay, so that unknown members survive.

One process serves the sessions that one principal's clients with the same `Introduction` have opened with one
agent, or a single one of them.  `AgentMessages` handles its messages, `Upstream` sends messages to it.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Literal, Protocol

from msgspec import Raw, Struct

from ... import codec
from ... import schema as s
from ...client.connecting import Target, failed_start
from ...connection.connection import Connection
from ...connection.incoming import IncomingRequest, being_answered
from ...connection.settling import settling
from ...errors import (
    AgentStartError,
    ConnectionClosed,
    Error,
    InternalError,
    RequestCancelled,
    ResourceNotFound,
    RpcError,
)
from ...events import Method, Reply
from ...host.host import Host
from ...host.isolation.hiding import Hiding
from ...host.permissions.approvals import ApprovalStore
from ...host.permissions.engine import Preset
from ...host.terminals.sandbox.sandbox import Sandbox
from ...transports import Transport
from ...transports.translating import TranslatingTransport
from ..access.introductions import Introduction
from ..access.principals import PrincipalName, state_of
from ..log.records import members, optional, raw, session_of
from ..workers import owned
from .agent_messages import AgentMessages
from .audience import Audience
from .mcp_servers import AgentServers, Served

log = logging.getLogger("dragoman")

START_TIMEOUT = 300.0  # seconds; a package runner may have to download the agent first
OPEN_TIMEOUT = 120.0  # seconds to open, load or resume a session
CLOSE_TIMEOUT = 10.0
CANCEL_TIMEOUT = 5.0  # seconds to answer a cancelled request


class Hosted(Struct, frozen=True, kw_only=True):
    """An agent that a gateway offers: its command, and who lends it files and terminals.

    `isolated` agents and their commands run in a sandbox around their principal's workspace, in which `visible` can
    be read, too.  Agents kept `apart` see neither the gateway's own files nor other principals' workspaces.
    `passes` names the agent's own methods that clients may call, besides those of the protocol and extensions with
    names that begin with an underscore.
    """

    target: Target
    env: Mapping[str, str] | None = None
    cwd: str | None = None  # the directory in which its process starts
    workspace: Literal["host", "client"] = "host"
    preset: Preset = "ask"
    sandbox: bool = False
    process_per: Literal["principal", "session"] = "principal"
    isolated: bool = False
    apart: bool = False
    visible: Sequence[str] = ()
    network: Sequence[str] = ()  # hosts, or hosts with a port, that isolated agents can connect to
    passes: Sequence[str] = ()
    state: str | None = None  # the directory of a host's audit log


class Party(Served, Protocol):
    """The interface of a session for the process behind it."""

    @property
    def is_idle(self) -> bool: ...
    def introduction(self) -> Introduction: ...
    def opened(self) -> None: ...
    def heard(self, params: dict[str, Raw]) -> None: ...
    async def asked(self, method: str, params: dict[str, Raw]) -> Raw: ...
    def told(self, method: str, params: Raw) -> None: ...
    def lost(self) -> None: ...


class Upstream:
    """An agent's process; call `start` and `close`."""

    def __init__(
        self,
        name: str,
        agent: Hosted,
        principal: PrincipalName,
        introduction: Introduction,
        wire: AbstractAsyncContextManager[Transport],
        ended: "Callable[[Upstream], None]",
        sandbox: Sandbox,
        hiding: Hiding | None = None,
    ) -> None:
        self._name, self.agent, self._principal, self._wire = name, agent, principal, wire
        self._sandbox, self._hiding = sandbox, hiding
        self.introduction = introduction
        self.audience = Audience()
        self.servers = AgentServers(self)  # MCP servers in clients
        self.greeting: dict[str, Raw] = {}  # its answer to initialize
        self.offers = s.AgentCapabilities()
        self.parties: dict[str, Party] = {}  # by the agent's id of the session
        self.suggesting: set[str] = set()  # its sessions of next edit suggestions, which have no `Party`
        self.parties_lost = 0  # the number of sessions when it ended
        self.host: Host | None = None
        self.connection: Connection
        self._ended = ended
        self._opening = 0  # sessions that are being opened
        self._messages = AgentMessages(self)
        self._running: asyncio.Task[None] | None = None
        self._way = AsyncExitStack()
        self._is_ending = False
        self._is_failed = False  # it had to be killed
        self._unread = 0  # unread bytes at the last check
        self._stuck_since: float | None = None

    @property
    def has_failed(self) -> bool:
        """Whether it ended by itself or had to be killed."""
        return self._is_failed or not self._is_ending

    def has_not_read_for(self, now: float) -> float:
        """How long it has read nothing although messages wait; call this regularly."""
        before, self._unread = self._unread, self.connection.unsent
        if not self._unread or self._unread < before:
            self._stuck_since = None
            return 0.0
        if self._stuck_since is None:
            self._stuck_since = now
        return now - self._stuck_since

    async def end_failed(self, why: str) -> None:
        """Kill the process because of a fault."""
        log.error("the agent %s is ended: %s", self._name, why)
        self._is_failed = True
        await self.close()

    @property
    def is_alive(self) -> bool:
        return self._running is not None and not self.connection.closed and not self._is_ending

    @property
    def is_idle(self) -> bool:
        """Whether it runs and is idle."""
        is_used = self.parties or self.suggesting or self._opening or self.audience.is_waiting
        return self.is_alive and not is_used

    @property
    def is_spare(self) -> bool:
        """Whether all its sessions are idle, and this or another process can continue them."""
        offers = self.offers
        is_asked = self.suggesting or self._opening or self.audience.is_waiting
        can_return = offers.load_session or offers.session_capabilities.resume
        return bool(self.is_alive and can_return and not is_asked and all(p.is_idle for p in self.parties.values()))

    @property
    def is_needed(self) -> bool:
        """Whether it has a session or a client, or is opening a session."""
        return bool(self.parties) or bool(self.audience) or self._opening > 0

    async def start(self) -> None:
        """Start the process and do the handshake; raises AgentStartError."""
        try:
            async with asyncio.timeout(START_TIMEOUT):
                await self._start()
        except TimeoutError:
            await self.close()
            raise AgentStartError("the agent does not answer initialize") from None
        except ConnectionClosed as exc:
            await self.close()
            raise failed_start(exc) from None
        except BaseException:
            await self.close()
            raise

    async def _start(self) -> None:
        wire = await self._way.enter_async_context(self._wire)
        self.connection = Connection(TranslatingTransport(wire, "agent"), quiet=True)
        if self.agent.workspace == "host":
            self.host = Host(
                preset=self.agent.preset,
                asker=self._messages.ask_for_host,
                sandbox=self._sandbox if self.agent.sandbox or self.agent.isolated else None,
                hiding=self._hiding,
                state=self.agent.state,
                audit=None if self.agent.state else False,
                store=self._approvals(),
                agent_name=self._name,
            )
            self.host.attach(self.connection)
        self.connection.when_closed(self._over)
        self._messages.attach()
        self._running = owned(self.connection.run(), "agent's process", lambda exc: self.connection.hang_up())
        told = self.introduction.told(self.host.capabilities() if self.host else None)
        self.told = codec.decode(told, s.InitializeRequest).client_capabilities
        self.greeting = members(await self.call("initialize", told))
        self.offers = codec.decode(raw(optional(self.greeting, "agentCapabilities")), s.AgentCapabilities)

    def _approvals(self) -> ApprovalStore | Literal[False]:
        """The stored approvals of this principal alone."""
        if self.agent.state is None:
            return False
        return ApprovalStore(state_of(self._principal, self.agent.state) / "approvals.json")

    async def close(self) -> None:
        """End the process."""
        self._is_ending = True
        if self._running:
            self._running.cancel()
            await asyncio.wait([self._running])
        if self.host:
            await self.host.take_back()
            self.host.detach()
        await self._way.aclose()

    # To the agent

    def ask(self, name: str, params: Raw) -> "asyncio.Future[Raw]":
        """Send the agent a request at once, in order; cancelling the answer cancels the request.

        The answer raises the agent's own error, or ConnectionClosed if it has ended.
        """
        return self._submit(name, params, None)[1]

    def _submit(self, name: str, params: Raw, request: IncomingRequest | None) -> tuple[int, "asyncio.Future[Raw]"]:
        answer: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        id = self.connection.submit(Method(name, Raw, Raw), params, settling(answer, _as_answered))

        def over(done: "asyncio.Future[Raw]") -> None:
            self.audience.has(id)
            if done.cancelled():
                self.connection.withdraw(id)

        self.audience.expects(id, request)
        answer.add_done_callback(over)
        return id, answer

    async def call(self, name: str, params: Raw) -> Raw:
        """Send the agent a request for the client of the current request, and wait for the answer.

        If this is cancelled, the agent is told to cancel the request, and its answer is awaited for a while.
        """
        request = being_answered()
        id, answer = self._submit(name, params, request)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            if answer.done() or request is None or request.connection.closed:
                answer.cancel()
                raise
            self.connection.request_cancel(id)
        try:
            async with asyncio.timeout(CANCEL_TIMEOUT):
                return await answer
        except TimeoutError:
            raise RequestCancelled() from None

    async def open(self, name: str, params: Raw, party: Party) -> tuple[str, Raw]:
        """Request a new session; updates right after the agent's answer are not lost."""
        answer: asyncio.Future[tuple[str, Raw]] = asyncio.get_running_loop().create_future()
        self.servers.add(party)  # they may get requests before the session has an id

        def settle(reply: Reply) -> None:
            self.audience.has(reply.id)
            try:
                if reply.error:
                    raise _as_answered(reply.error)
                id = session_of(members(reply.result))
                if answer.done():  # nobody wants it any more, and only we know of it
                    self._forgo(id)
                    return
                if id in self.parties:
                    raise InternalError("the agent gave a new session the id of another one")
                self.adopt(id, party)
                party.opened()
                answer.set_result((id, reply.result))
            except Exception as exc:
                if not answer.done():
                    answer.set_exception(exc)

        self.audience.expects(self.connection.submit(Method(name, Raw, Raw), params, settle), being_answered())
        try:
            async with self._in_time(name, OPEN_TIMEOUT):
                return await answer
        except BaseException:
            self.servers.forget(party)
            raise

    async def reopen(self, name: str, params: Raw) -> Raw:
        """Request to load or resume a session."""
        async with self._in_time(name, OPEN_TIMEOUT):
            return await self._submit(name, params, being_answered())[1]

    async def delete(self, params: Raw) -> None:
        """Let the agent delete a session; an unknown one counts as deleted."""
        with contextlib.suppress(ResourceNotFound):
            async with self._in_time("session/delete", CLOSE_TIMEOUT):
                await self._submit("session/delete", params, being_answered())[1]

    @contextlib.asynccontextmanager
    async def _in_time(self, name: str, seconds: float) -> AsyncIterator[None]:
        """Kill an agent that does not answer in time, because its state is unknown."""
        self._opening += 1
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            await self.end_failed(f"it did not answer {name} in {seconds:g} s")
            why = f"the agent did not answer {name} in {seconds:g} s"
            raise InternalError(why, {"kind": "agent_timeout"}) from None
        finally:
            self._opening -= 1

    def adopt(self, id: str, party: Party) -> None:
        """Pass a session's messages to this party from now on."""
        self.parties[id] = party
        self.servers.add(party)
        for update in self._messages.early(id):
            party.heard(update)

    async def release(self, id: str) -> None:
        """Release a session: its party gets no more messages, the agent closes it if it can, and its loan ends.

        An agent that does not answer is killed.
        """
        self.forget(id)
        async with self._reclaiming(id):
            if self.is_alive and self.offers.session_capabilities.close:
                try:
                    async with self._in_time("session/close", CLOSE_TIMEOUT):
                        await self.ask("session/close", raw({"sessionId": id}))
                except Error as exc:
                    log.info("an agent did not close a session: %s", exc)

    def can_give_up(self, id: str) -> bool:
        """Whether another process of this agent can continue a session that has begun no others."""
        party, offers = self.parties.get(id), self.offers.session_capabilities
        is_alone = [whose for whose in self.parties.values() if whose is party] == [party]
        is_let_go = bool(offers.close) or len(self.parties) == 1
        return is_alone and is_let_go and bool(offers.resume or self.offers.load_session)

    def forget(self, id: str) -> None:
        """Ignore further messages of a session and of those that it has begun."""
        if party := self.parties.pop(id, None):
            self.servers.forget(party)
            for child in [child for child, whose in self.parties.items() if whose is party]:
                del self.parties[child]

    def _forgo(self, id: str) -> None:
        """Close a session without an owner."""
        if self.offers.session_capabilities.close:
            self._end("session/close", id)

    def stop_suggesting(self, id: str) -> None:
        """Close a session of next edit suggestions that is not needed any more."""
        self.suggesting.discard(id)
        self._end("nes/close", id)

    def _end(self, name: str, id: str) -> None:
        if not self.connection.closed:
            self.connection.submit(Method(name, Raw, Raw), raw({"sessionId": id}), lambda reply: None)

    def _reclaiming(self, id: str) -> AbstractAsyncContextManager[None]:
        return self.host.reclaiming(id) if self.host else contextlib.nullcontext()

    def begin_turn(self, id: str) -> None:
        """Begin a session's next turn; the approvals of the last one end."""
        if self.host:
            self.host.begin_turn(id)

    def cancel(self, id: str) -> None:
        """Cancel a session's turn; its approvals end."""
        self.note("session/cancel", raw({"sessionId": id}))
        if self.host:
            self.host.withdraw_questions(id)

    def note(self, name: str, params: Raw) -> None:
        """Notify the agent, unless it does not read its messages."""
        with contextlib.suppress(Error):
            self.connection.note(Method(name, Raw, is_request=False), params)

    def _over(self) -> None:
        parties, self.parties = self.parties, {}
        self.parties_lost = len(parties)
        self.servers.over()
        for party in parties.values():
            party.lost()
        self._ended(self)


def _as_answered(error: Exception) -> Exception:
    """An agent's error for a client; errors of the connection stay unchanged."""
    if isinstance(error, RpcError):
        return RpcError.of(error.code, error.message, error.data)
    return error if isinstance(error, ConnectionClosed) else InternalError(str(error))
