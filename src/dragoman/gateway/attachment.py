"""A remote gateway as an agent that survives drops: `connect(attached(url))`, and `dragoman connect URL`.

The transport reconnects by itself after a drop.  If it cannot, because the gateway was restarted or was away for
long, `Returning` dials again; this module then resumes every session and repeats the open requests.  A prompt has a
key, so it never runs twice, and one that was cancelled meanwhile does not run at all.
"""

import asyncio
import contextlib
import functools
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from msgspec import Raw, Struct

from ..agent.apps import App
from ..connection.connection import Connection
from ..connection.remotes import RemoteClient
from ..errors import Error, InternalError, Overloaded, RequestCancelled, RpcError
from ..events import Method
from ..foundation.owning import Work
from ..proxy.relaying import Relayed, relayed
from ..roles import AgentRole
from ..transports.holding import HeldUntilRoom
from .early_updates import EarlyUpdates
from .log.records import AFTER, PROMPT, SEQ, changed, members, meta, meta_value, optional, raw, session_of, text
from .returning import MAX_WAITING, PATIENCE, Headers, Returning, Withdrawn, ask, last_answers
from .sessions.prompt_queue import CANCELLED

log = logging.getLogger("dragoman")

MAX_BEGUN = 10_000  # sessions begun by agents that are remembered
AGAIN = ("session/prompt", "session/list", "session/resume")  # methods that may be repeated
MAKING = ("session/new", "session/fork")
OPENING = (*MAKING, "session/load", "session/resume")
KNOWN = ("session/load", "session/resume", "session/attach")  # methods that open a session with a known id
LEAVING = ("session/close", "session/delete", "session/detach", "session/archive")
OURS = "_dragoman/"


class Followed(Struct):
    """An open session of the client, and the last update that it got."""

    opening: dict[str, Raw]
    again: str  # the params for resuming it after a lost connection
    last: int = 0


class PendingPrompt(Struct, eq=False):
    """An unanswered prompt of the client."""

    session: str
    key: str
    was_sent: bool = False
    is_cancelled: bool = False


class Attachment(AgentRole):
    """Connects one client with a gateway over changing connections."""

    def __init__(self, url: str, headers: Headers, cwd: str | None, patience: float, client: Connection) -> None:
        self._cwd, self._client = cwd, client
        self.on_unreachable: Callable[[str], object] = lambda why: None
        self._name = secrets.token_hex(12)  # the client's name at the gateway
        self._greeting = raw({})
        self._wants_ours = False
        self._comes_back = False  # whether the other end can resume sessions (is a gateway)
        self._sessions: dict[str, Followed] = {}
        self._begun: dict[str, str] = {}  # sessions begun by agents, with the sessions they were begun from
        self._prompts: list[PendingPrompt] = []
        self._to_cancel: list[
            tuple[str, str]
        ] = []  # prompts cancelled while the gateway was away, which it may have
        self._early: EarlyUpdates[tuple[HeldUntilRoom, Raw]] = EarlyUpdates()  # of sessions being opened
        self._opening = 0  # running requests that may open a session
        self._gateway = Returning(url, headers, patience, prepare=self._prepare, take_up=self._take_all_up)
        self._tasks: set[asyncio.Task[None]] = set()

    def answers(self, role: type[Any]) -> tuple[Mapping[str, Method], Mapping[str, Method]]:
        return Relayed({"initialize": self._asking("initialize")}, self._asking), Relayed({}, self._telling)

    def _asking(self, name: str) -> Method:
        handler = functools.partial(self._ask, name)
        return Method(name, Raw, Raw, opens=name == "initialize", handler=handler)

    def _telling(self, name: str) -> Method:
        def tell(params: Raw) -> None:
            self._start(self._tell_gateway(name, params))  # after the earlier requests, which have tasks, too

        return Method(name, Raw, is_request=False, handler=tell)

    def _start(self, work: Work[None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # From the client

    async def _ask(self, name: str, params: Raw) -> Raw:
        found = members(params)
        if name == "initialize":
            return await self._initialize(found)
        if name == "session/prompt":
            return await self._prompt(found)
        if name in OPENING and self._cwd:
            found = members(changed(found, cwd=self._cwd))
            params = raw(found)
        if name in KNOWN:
            return await self._open(name, found, params)
        with self._may_open(name):
            result = await self._relay(name, params)
            if name in MAKING:
                self._follow(session_of(members(result)), found)
                self._place(session_of(members(result)), result)
            elif name in LEAVING:
                self._sessions.pop(session_of(found), None)
            return result

    async def _relay(self, name: str, params: Raw, prompt: PendingPrompt | None = None) -> Raw:
        """Pass a request to the gateway, again over the next connection if one is lost meanwhile."""
        while True:
            remote = await self._gateway.connection(prompt.session if prompt else None)
            if prompt:
                prompt.was_sent = True
            try:
                return await relayed(self._client, remote, Method(name, Raw, Raw), params)  # type: ignore[no-any-return]
            except RequestCancelled:
                raise
            except RpcError:
                if not remote.closed:
                    raise
                if name not in AGAIN:
                    why = "the connection to the gateway was lost in the middle; try again"
                    raise InternalError(why, {"kind": "connection_lost"}) from None
                if prompt and prompt.is_cancelled:
                    raise Withdrawn from None

    async def _open(self, name: str, found: dict[str, Raw], params: Raw) -> Raw:
        session = session_of(found)
        before = self._sessions.get(session)
        self._follow(session, found, name)
        try:
            result = await self._relay(name, params)
            self._place(session, result)
            return result
        except RpcError:
            if before is None:
                self._sessions.pop(session, None)
            raise

    async def _prompt(self, found: dict[str, Raw]) -> Raw:
        key = meta_value(found, PROMPT)
        if not isinstance(key, str):
            key = secrets.token_hex(12)
            found = members(changed(found, {PROMPT: key}))
        prompt = PendingPrompt(session_of(found), key)
        self._prompts.append(prompt)
        try:
            return await self._relay("session/prompt", raw(found), prompt)
        except Withdrawn:
            self._cancel_on_return(prompt)
            return CANCELLED
        except asyncio.CancelledError:  # the client cancelled the request
            self._cancel_on_return(prompt)
            raise
        finally:
            self._prompts.remove(prompt)

    def _cancel_on_return(self, prompt: PendingPrompt) -> None:
        if prompt.was_sent and len(self._to_cancel) < MAX_WAITING:
            self._to_cancel.append((prompt.session, prompt.key))

    async def _tell_gateway(self, name: str, params: Raw) -> None:
        with contextlib.suppress(Error):
            if name == "session/cancel" and self._cancel(session_of(members(params))):
                return
            remote = await self._gateway.connection()
            remote.note(Method(name, Raw, is_request=False), params)

    def _cancel(self, session: str) -> bool:
        """Cancel the prompts of a session; true if the gateway need not be told now."""
        for prompt in self._prompts:
            prompt.is_cancelled = prompt.is_cancelled or prompt.session == session
        self._gateway.withdraw(session)
        return self._gateway.remote is None or self._gateway.remote.closed is not None

    @contextmanager
    def _may_open(self, name: str) -> Iterator[None]:
        """Keep updates while a session with a yet unknown id may be opened."""
        opens = name in MAKING
        self._opening += opens
        try:
            yield
        finally:
            self._opening -= opens
            if not self._opening:
                self._early.clear()

    def _follow(self, session: str, opening: dict[str, Raw], way: str = "") -> None:
        """Note an open session; its early updates are sent after the answer."""
        again = way if way == "session/attach" else "session/resume"
        self._sessions[session] = Followed({**opening, "sessionId": raw(session)}, again)
        if early := self._early.take(session):
            self._client.after_answer(functools.partial(self._tell_late, session, early))

    def _place(self, session: str, said: Raw) -> None:
        """Note the position in an answer or update, from which the session is resumed later."""
        number = meta_value(members(said), SEQ)
        if isinstance(number, int) and (followed := self._sessions.get(session)):
            followed.last = max(followed.last, number)

    def _tell_late(self, session: str, early: list[tuple[HeldUntilRoom, Raw]]) -> None:
        for source, params in early:
            self._place(session, params)
            self._tell_client(source, "session/update", params)

    async def _initialize(self, found: dict[str, Raw]) -> Raw:
        capabilities = members(found.get("clientCapabilities", raw({})))
        self._wants_ours = "dragoman" in meta(capabilities)
        known = {**(meta_value(capabilities, "dragoman") or {}), "client": self._name}
        known |= {} if self._wants_ours else {"plain": True}  # a gateway's own messages would end here
        self._greeting = changed(found, clientCapabilities=changed(capabilities, {"dragoman": known}))
        try:
            remote = await self._gateway.open()
        except InternalError as exc:
            self.on_unreachable(exc.message)
            raise
        try:
            result = await ask(remote, "initialize", self._greeting, timeout=None)
        except BaseException:
            remote.hang_up()  # the client may send `initialize` again, on a new connection
            raise
        offers = members(members(result).get("agentCapabilities", raw({})))
        self._comes_back = "dragoman" in meta(offers)
        self._gateway.stay(comes_back=self._comes_back, over=self._give_up)
        return result

    def _give_up(self, why: str) -> None:
        self.on_unreachable(why)
        self._start(self._hang_up())

    async def _hang_up(self) -> None:
        await last_answers(self._client)
        self._client.hang_up()

    # A new connection to the gateway

    def _prepare(self, remote: Connection) -> None:
        source = HeldUntilRoom(remote.hold, remote.resume, self._client.room)

        def request(name: str) -> Method:
            handler = functools.partial(relayed, remote, self._client, Method(name, Raw, Raw))
            return Method(name, Raw, Raw, handler=handler)

        def notification(name: str) -> Method:
            is_update = name == "session/update"
            handler = functools.partial(self._update if is_update else self._tell_client, source, name)
            return Method(name, Raw, is_request=False, handler=handler)

        remote.answer_with(Relayed({}, request), Relayed({}, notification))

    async def _take_all_up(self, remote: Connection) -> None:
        await ask(remote, "initialize", self._greeting)
        for session, followed in list(self._sessions.items()):
            await self._take_up(remote, session, followed)
        while self._to_cancel:
            session, key = self._to_cancel[0]
            with contextlib.suppress(RpcError):  # it has ended or never arrived
                await ask(remote, "_dragoman/queue/cancel", raw({"sessionId": session, "_meta": {PROMPT: key}}))
            if remote.closed:
                raise remote.closed
            del self._to_cancel[0]

    async def _take_up(self, remote: Connection, session: str, followed: Followed) -> None:
        """Resume a session; if the gateway refuses, it is not open any more."""
        try:
            await ask(remote, followed.again, changed(followed.opening, {AFTER: followed.last}))
        except RpcError as exc:
            if remote.closed or isinstance(exc, Overloaded):
                raise
            log.error("a session cannot be gone on with: %s", exc)
            self._sessions.pop(session, None)

    # From the gateway

    def _update(self, source: HeldUntilRoom, name: str, params: Raw) -> None:
        found = members(params)
        session = session_of(found)
        session = self._begun.get(session, session)  # that session's log has it
        followed = self._sessions.get(session)
        if followed is None:
            self._update_unknown(session, source, params)
            return
        self._note_begun(session, found)
        number = meta_value(found, SEQ)
        if isinstance(number, int):
            if number <= followed.last:
                return  # told already
            followed.last = number
        self._tell_client(source, name, params)

    def _note_begun(self, session: str, found: dict[str, Raw]) -> None:
        if b'"subagent_update"' in bytes(found.get("update", b"")) and len(self._begun) < MAX_BEGUN:
            begun = text(optional(found, "update"), "sessionId")
            self._begun |= {} if begun is None or begun in self._sessions else {begun: session}

    def _update_unknown(self, session: str, source: HeldUntilRoom, params: Raw) -> None:
        """Keep an update of a session that may be being opened; other unknown ones belong to closed sessions."""
        if not self._opening:
            if not self._comes_back:
                self._tell_client(source, "session/update", params)
            return
        self._early.keep(session, (source, params), len(params))

    def _tell_client(self, source: HeldUntilRoom, name: str, params: Raw) -> None:
        if self._client.closed or (name.startswith(OURS) and not self._wants_ours):
            return
        self._client.note(Method(name, Raw, is_request=False), params)
        if self._client.is_full:
            source.begin()

    async def close(self) -> None:
        await self._gateway.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


def attached(
    url: str,
    *,
    headers: Headers | None = None,
    cwd: str | None = None,
    patience: float = PATIENCE,
    on_unreachable: Callable[[str], object] = lambda why: None,
) -> App:
    """The agent at a gateway as an app that survives drops and restarts.

    `cwd` is the directory of its sessions on the server.  A request fails if the gateway is away for `patience`
    seconds.  `headers` may be a function, which is called for each new connection, so that a credential can be
    replaced.  `on_unreachable` is called if the gateway cannot be reached at first, or any more.
    """
    return functools.partial(_attached, url, headers or {}, cwd, patience, on_unreachable)


@asynccontextmanager
async def _attached(
    url: str,
    headers: Headers,
    cwd: str | None,
    patience: float,
    on_unreachable: Callable[[str], object],
    client: RemoteClient,
) -> AsyncIterator[Attachment]:
    attachment = Attachment(url, headers, cwd, patience, client.wire)
    attachment.on_unreachable = on_unreachable
    try:
        yield attachment
    finally:
        await attachment.close()
