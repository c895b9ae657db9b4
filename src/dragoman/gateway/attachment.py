"""A gateway's agent that stays attached: `connect(attached(url))`, and `dragoman connect URL` for editors.

The transport comes back by itself after a drop.  When it cannot, because the gateway was restarted, this dials
anew, takes every session up where it was left, and sends again what was asked: a prompt is known by its key, so it
is never run twice.
"""

import asyncio
import functools
import logging
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Raw, Struct

from ..agent import App
from ..connection import Connection
from ..errors import AgentStartError, ConnectionClosed, Error, InternalError, RpcError
from ..proxy import Relayed, let_through, relayed
from ..roles import AgentRole, RemoteClient
from ..rpc import Method
from ..transports import Transport
from ..transports.addresses import Persistence
from ..transports.remote import dial
from ..transports.translating import TranslatingTransport
from .records import AFTER, PROMPT, SEQ, changed, members, meta, meta_value, raw, session_of

log = logging.getLogger("dragoman")

PATIENCE = 600.0  # seconds to try to come back
STRANGERS = 64  # sessions, and updates of each, that are kept until their session is known
AGAIN = ("session/prompt", "session/list", "session/resume")  # what does no harm when it is asked twice
OPENING = ("session/new", "session/load", "session/resume")
KNOWN = ("session/load", "session/resume", "session/attach")  # what opens a session that has a name
OURS = "_dragoman/"


class Followed(Struct):
    """A session the client has open, and how far it has been told."""

    opening: dict[str, Raw]
    again: str  # how it is taken up when the wire was lost
    last: int = 0


class Attachment(AgentRole):
    """Stands between one client and a gateway, whichever wire leads to it at the moment."""

    def __init__(self, url: str, headers: Mapping[str, str], cwd: str | None, client: Connection) -> None:
        self._url, self._headers, self._cwd, self._client = url, headers, cwd, client
        self._name = secrets.token_hex(12)  # what the gateway knows this client by
        self._greeting: Raw | None = None
        self._wants_ours = False
        self._comes_back = False  # whether the other end is one that sessions can be taken up with
        self._sessions: dict[str, Followed] = {}
        self._strangers: dict[str, list[Raw]] = {}
        self._remote: Connection | None = None
        self._ready = asyncio.Event()
        self._over: Exception | None = None
        self._staying: asyncio.Task[None] | None = None
        self._flows: set[asyncio.Task[None]] = set()

    def answers(self, role: type[Any]) -> tuple[Mapping[str, Method], Mapping[str, Method]]:
        return Relayed({"initialize": self._asking("initialize")}, self._asking), Relayed({}, self._telling)

    def _asking(self, name: str) -> Method:
        handler = functools.partial(self._ask, name)
        return Method(name, Raw, Raw, opens=name == "initialize", handler=handler)

    def _telling(self, name: str) -> Method:
        def tell(params: Raw) -> None:
            if self._remote:
                self._remote.note(Method(name, Raw, is_request=False), params)

        return Method(name, Raw, is_request=False, handler=tell)

    # From the client

    async def _ask(self, name: str, params: Raw) -> Raw:
        found = members(params)
        if name == "initialize":
            return await self._initialize(found)
        if name == "session/prompt" and PROMPT not in meta(found):
            params = changed(found, {PROMPT: secrets.token_hex(12)})
        if name in OPENING and self._cwd:
            found = members(changed(found, cwd=self._cwd))
            params = raw(found)
        if name in KNOWN:
            was_known = session_of(found) in self._sessions
            self._follow(session_of(found), found, name)
        while True:
            remote = await self._connected()
            try:
                result: Raw = await relayed(self._client, remote, Method(name, Raw, Raw), params)
                break
            except RpcError:
                if not remote.closed:
                    if name in KNOWN and not was_known:
                        self._sessions.pop(session_of(found), None)
                    raise
                if name not in AGAIN:
                    why = "the connection to the gateway was lost in the middle; try again"
                    raise InternalError(why, {"kind": "connection_lost"}) from None
        if name == "session/new":
            self._follow(session_of(members(result)), found)
        elif name in ("session/close", "session/delete", "session/detach"):
            self._sessions.pop(session_of(found), None)
        return result

    def _follow(self, session: str, opening: dict[str, Raw], way: str = "") -> None:
        """From now on a session is the client's; what was told of it too early is told after the answer."""
        again = way if way == "session/attach" else "session/resume"
        self._sessions[session] = Followed({**opening, "sessionId": raw(session)}, again)
        if early := self._strangers.pop(session, None):
            self._client.after_answer(functools.partial(self._tell_late, early))

    def _tell_late(self, early: list[Raw]) -> None:
        for params in early:
            self._update(params)

    async def _initialize(self, found: dict[str, Raw]) -> Raw:
        capabilities = members(found.get("clientCapabilities", raw({})))
        self._wants_ours = "dragoman" in meta(capabilities)
        known = {**(meta_value(capabilities, "dragoman") or {}), "client": self._name}
        self._greeting = changed(found, clientCapabilities=changed(capabilities, {"dragoman": known}))
        remote = await self._dial()
        result = await self._greet(remote)
        offers = members(members(result).get("agentCapabilities", raw({})))
        self._comes_back = "dragoman" in meta(offers)
        self._staying = asyncio.create_task(self._stay(remote), name="staying attached")
        return result

    async def _greet(self, remote: Connection) -> Raw:
        assert self._greeting is not None
        try:
            return await remote.call(Method("initialize", Raw, Raw), self._greeting)  # type: ignore[no-any-return]
        except RpcError as exc:
            raise RpcError.of(exc.code, exc.message, exc.data) from None
        except Error as exc:
            raise InternalError(str(exc)) from None

    async def _connected(self) -> Connection:
        while self._remote is None or self._remote.closed:
            if self._over:
                raise InternalError(str(self._over))
            self._ready.clear()
            await self._ready.wait()
        return self._remote

    # The wire to the gateway

    async def _dial(self) -> Connection:
        try:
            wire: Transport = await dial(self._url, headers=self._headers)
        except AgentStartError as exc:
            raise InternalError(str(exc)) from None
        return self._start(wire)

    def _start(self, wire: Transport) -> Connection:
        remote = Connection(TranslatingTransport(wire, "agent"), quiet=True)

        def request(name: str) -> Method:
            handler = functools.partial(relayed, remote, self._client, Method(name, Raw, Raw))
            return Method(name, Raw, Raw, handler=handler)

        def notification(name: str) -> Method:
            handler = self._update if name == "session/update" else functools.partial(self._tell, name)
            return Method(name, Raw, is_request=False, handler=handler)

        remote.answer_with(Relayed({}, request), Relayed({}, notification))
        running = asyncio.create_task(remote.run(), name="gateway")
        self._flows.add(running)
        running.add_done_callback(self._flows.discard)
        self._remote = remote
        self._ready.set()
        return remote

    async def _stay(self, remote: Connection) -> None:
        """Whenever the wire is gone for good, dial again and go on."""
        try:
            while True:
                await _ended(remote)
                if not self._comes_back:
                    raise ConnectionClosed(str(remote.closed))
                log.info("the gateway is gone (%s); trying to come back", remote.closed)
                self._remote = None
                remote = await Persistence(PATIENCE).persist(self._return)
        except Exception as exc:
            self._over = exc
            log.error("the gateway cannot be reached any more: %s", exc)
            self._ready.set()
            self._client.hang_up()

    async def _return(self) -> Connection:
        try:
            wire = await dial(self._url, headers=self._headers)
        except AgentStartError as exc:
            if isinstance(exc.__context__, OSError | TimeoutError):
                raise ConnectionRefusedError(0, str(exc)) from None
            raise
        self._ready.clear()
        remote = self._start(wire)
        self._remote = None  # not for requests before its sessions are taken up
        try:
            await self._greet(remote)
            for session, followed in list(self._sessions.items()):
                await self._take_up(remote, session, followed)
        except (InternalError, ConnectionClosed) as exc:
            remote.hang_up()
            raise ConnectionResetError(0, str(exc)) from None
        self._remote = remote
        self._ready.set()
        return remote

    async def _take_up(self, remote: Connection, session: str, followed: Followed) -> None:
        try:
            params = changed(followed.opening, {AFTER: followed.last})
            await remote.call(Method(followed.again, Raw, Raw), params)
        except RpcError as exc:
            log.error("a session cannot be gone on with: %s", exc)
            self._sessions.pop(session, None)

    # From the gateway

    def _update(self, params: Raw) -> None:
        found = members(params)
        session = session_of(found)
        followed = self._sessions.get(session)
        if followed is None:
            if session in self._strangers or len(self._strangers) < STRANGERS:
                early = self._strangers.setdefault(session, [])
                if len(early) < STRANGERS:
                    early.append(params)
            return
        number = meta_value(found, SEQ)
        if isinstance(number, int):
            if number <= followed.last:
                return  # told already
            followed.last = number
        self._tell("session/update", params)

    def _tell(self, name: str, params: Raw) -> None:
        if self._client.closed or (name.startswith(OURS) and not self._wants_ours):
            return
        self._client.note(Method(name, Raw, is_request=False), params)
        if self._client.is_full and self._remote:
            self._remote.hold()
            flow = asyncio.create_task(let_through(self._remote, self._client))
            self._flows.add(flow)
            flow.add_done_callback(self._flows.discard)

    async def close(self) -> None:
        if self._staying:
            self._staying.cancel()
            await asyncio.wait([self._staying])
        for flow in list(self._flows):
            flow.cancel()
        if self._flows:
            await asyncio.wait(self._flows)


async def _ended(remote: Connection) -> None:
    over = asyncio.Event()
    before = remote.on_close

    def closed() -> None:
        if before:
            before()
        over.set()

    remote.on_close = closed
    if not remote.closed:
        await over.wait()


def attached(url: str, *, headers: Mapping[str, str] | None = None, cwd: str | None = None) -> App:
    """The agent at a gateway as an app that survives drops and restarts; `cwd` is where its sessions are there."""
    return functools.partial(_attached, url, headers or {}, cwd)


@asynccontextmanager
async def _attached(
    url: str, headers: Mapping[str, str], cwd: str | None, client: RemoteClient
) -> AsyncIterator[Attachment]:
    assert isinstance(client.wire, Connection)
    attachment = Attachment(url, headers, cwd, client.wire)
    try:
        yield attachment
    finally:
        await attachment.close()
