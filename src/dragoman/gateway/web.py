"""The gateway on the web: `/acp` for clients, `/healthz`, `/readyz` and `/metrics` for those who look after it.

Whoever asks under a name that is not ours, or from a web page that was not allowed, is refused before anything else
is looked at, whatever they ask for.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Collection
from typing import Any

from ..agent.serving import serve_on
from ..transports.remote.addresses import CONNECTION
from ..transports.remote.server.accepted import AcceptedTransport, WebRequest
from ..transports.remote.server.answers import Event, Receive, RequestRefused, Scope, Send, refuse, respond
from ..transports.remote.server.asgi import Endpoint, read_request
from .access.admission import SUBPROTOCOL, Admission, Principal
from .access.guard import Guard
from .access.quotas import RETRY_AFTER
from .access.throttle import Throttle
from .access.tokens import TokenFileError
from .clients.client_connection import serve_client
from .gateway import Gateway
from .metrics import TYPE
from .workers import owned

log = logging.getLogger("dragoman")

WATCH_EVERY = 0.4  # seconds; what is revoked is out within one
ERRORS = 1001  # frames of one client that are wrong, within a minute, before it is sent away
WRONG = (400, 413, 501)  # what a request with a wrong frame is answered
ABUSIVE = 1008  # the code a WebSocket is closed with then
REVOKED = 4401  # the code a WebSocket is closed with when its credential is no longer good
ROOT = "/acp"
PLAIN = {"content-type": "text/plain; charset=utf-8"}


class Web:
    """The ASGI application; `hosts` are the names it goes by, `origins` the pages that may use it."""

    def __init__(
        self,
        gateway: Gateway,
        admission: Admission,
        *,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        **options: Any,
    ) -> None:
        self.gateway, self.admission = gateway, admission
        self.guard = Guard(hosts, origins, lambda why: gateway.metrics.refusals.add(1, why))
        most = 2 * gateway.limits.connections  # those that are ending count there, too
        self._endpoint = Endpoint(
            self._serve, admit=self._admit, origins=self.guard.origins, connections=most, **options
        )
        self._wires: dict[str, AcceptedTransport] = {}  # by the ids of connections
        self._errors = Throttle(ERRORS)
        self._watching: asyncio.Task[None] | None = None
        self._watching_keys: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Live connections are looked at again and again: who is no longer let in is sent away."""
        self._begin_watch()
        self._begin_watch_of_keys()
        try:
            yield
        finally:
            assert self._watching and self._watching_keys
            self._watching.cancel()
            self._watching_keys.cancel()
            await asyncio.wait([self._watching, self._watching_keys])
            await self._endpoint.close()

    def _begin_watch(self, _: object = None) -> None:
        """A look that fails is followed by others."""
        self._watching = owned(self._watch(), "revocations", self._begin_watch)

    def _begin_watch_of_keys(self, _: object = None) -> None:
        self._watching_keys = owned(self._watch_keys(), "issuer's keys", self._begin_watch_of_keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._endpoint(scope, receive, send)
            return
        try:
            self.guard.check(scope)
            await self._route(scope, receive, send)
        except RequestRefused as refused:
            if scope["type"] == "websocket":
                await receive()  # websocket.connect
            await refuse(scope, send, refused)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if self._agent(path) is not None:
            await self._endpoint(scope, receive, self._heeding(scope, _choosing(scope, send)))
        elif scope["type"] == "http" and path == "/healthz":
            await respond(send, 200, b"ok\n", PLAIN)
        elif scope["type"] == "http" and path == "/readyz":
            ready = not self.gateway.is_draining
            await respond(send, 200 if ready else 503, b"ready\n" if ready else b"draining\n", PLAIN)
        elif scope["type"] == "http" and path == "/metrics":
            await self._metrics(scope, send)
        else:
            raise RequestRefused(404, "there is nothing here")

    async def _metrics(self, scope: Scope, send: Send) -> None:
        principal = await self.admission(read_request(scope))
        if "admin" not in principal.scopes:
            raise RequestRefused(403, "this takes a token with the scope admin")
        await respond(send, 200, self.gateway.metrics.text().encode(), {"content-type": TYPE})

    def _agent(self, path: str) -> str | None:
        """The agent a path leads to."""
        if path == ROOT:
            return self.gateway.default
        name = path.removeprefix(f"{ROOT}/")
        return name if name != path and name in self.gateway.agents else None

    async def _admit(self, request: WebRequest) -> Principal:
        principal = await self.admission(request)
        if request.headers.get(CONNECTION):
            return principal
        retry = {"retry-after": str(RETRY_AFTER)}
        if self.gateway.is_draining:
            raise RequestRefused(503, "this gateway is about to stop", retry)
        if len(self._wires) >= self.gateway.limits.connections:
            self.gateway.metrics.refusals.add(1, "connections")
            raise RequestRefused(503, "too many clients are connected", retry)
        own = sum(_whose(wire).name == principal.name for wire in self._wires.values())
        if own >= self.gateway.limits.connections_each:
            self.gateway.metrics.refusals.add(1, "connections_each")
            raise RequestRefused(429, "you have too many connections", retry)
        return principal

    async def _serve(self, wire: AcceptedTransport) -> None:
        agent = self._agent(wire.request.path)
        assert agent is not None
        self._wires[wire.id] = wire
        erred = functools.partial(self._erred, wire)
        try:
            await serve_on(functools.partial(serve_client, self.gateway, agent, _whose(wire).name, erred), wire)
        finally:
            del self._wires[wire.id]
            self._errors.forget(wire.id)

    def _erred(self, wire: AcceptedTransport) -> None:
        """A client has sent what is wrong; one that does nothing else is sent away."""
        self._errors.failed(wire.id)
        if self._errors.wait(wire.id) and not wire.is_over:
            who, where = _whose(wire).name, wire.request.peer
            log.warning("sent away for %d wrong frames in a minute: %s, at %s", ERRORS, who, where)
            self.gateway.metrics.refusals.add(1, "abuse")
            wire.end("too many wrong frames", ABUSIVE)

    def _heeding(self, scope: Scope, send: Send) -> Send:
        """Take note of wrong frames that never come as far as the connection they were for."""
        wire = self._wires.get(read_request(scope).headers.get(CONNECTION, ""))
        if wire is None or scope["type"] != "http":
            return send

        async def sending(event: Event) -> None:
            await send(event)
            if event.get("status") in WRONG:
                self._erred(wire)

        return sending

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_EVERY)
            try:
                self.admission.refresh()
            except TokenFileError as exc:
                log.error("%s", exc)
            for wire in list(self._wires.values()):
                if not self.admission.still_holds(_whose(wire)):
                    self.gateway.metrics.refusals.add(1, "revoked")
                    wire.end("the credential is no longer good", REVOKED)

    async def _watch_keys(self) -> None:
        """Look at an issuer's keys, which may take long, beside what must not wait for it."""
        while True:
            await asyncio.sleep(WATCH_EVERY)
            await self.admission.refresh_keys()


def _whose(wire: AcceptedTransport) -> Principal:
    assert isinstance(wire.principal, Principal)
    return wire.principal


def _choosing(scope: Scope, send: Send) -> Send:
    """Answer a browser that offered subprotocols with ours: without one it hangs up."""
    if SUBPROTOCOL not in (scope.get("subprotocols") or ()):
        return send

    async def sending(event: Event) -> None:
        await send({**event, "subprotocol": SUBPROTOCOL} if event["type"] == "websocket.accept" else event)

    return sending
