"""The gateway's web application: `/acp` for clients, `/healthz`, `/readyz` and `/metrics` for operators.

`Web.routes` is the table of its routes; `routes.py` has the guard before it.
"""

import contextlib
import functools
import logging
import time
from collections.abc import AsyncIterator, Collection
from typing import Any

from ...agent.serving import serve_on
from ...errors import Overloaded
from ...transports.remote.addresses import CONNECTION
from ...transports.remote.server.accepted import AcceptedTransport, WebRequest
from ...transports.remote.server.answers import Event, Receive, RequestRefused, Scope, Send, respond
from ...transports.remote.server.asgi import Endpoint, read_request
from ..access.admission import SUBPROTOCOL, Admission, Principal
from ..access.guard import Guard
from ..access.limits import RETRY_AFTER
from ..access.proxies import TrustedProxies
from ..access.throttle import Throttle
from ..chores import Chore
from ..clients.client_connection import ClientConnection, serve_client
from ..gateway import Gateway
from ..log_context import LONGEST, log_access
from ..metrics import TYPE
from .routes import ANY, NOTHING_HERE, RoutedRequest, Routes, WebRoute, method_of

log = logging.getLogger("dragoman")

WATCH_EVERY = 0.4  # seconds; a revoked client is disconnected within one
ERRORS = 1001  # wrong frames of one client within a minute before it is disconnected
WRONG = (400, 413, 501)  # the statuses of requests with a wrong frame
ABUSIVE = 1008  # the WebSocket close code for that
REVOKED = 4401  # the WebSocket close code for an invalid credential
REVOCATIONS, KEYS = "revocations", "issuer's keys"  # chores
ROOT = "/acp"
HEALTH, READY = PROBES = ("/healthz", "/readyz")
NOTES = "dragoman.notes"  # the key in a request's scope for the access log
PLAIN = {"content-type": "text/plain; charset=utf-8"}


class Web:
    """The ASGI application; `hosts` are its allowed names, `origins` the pages that may use it."""

    def __init__(
        self,
        gateway: Gateway,
        admission: Admission,
        *,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        proxies: TrustedProxies = TrustedProxies(),  # noqa: B008 - it cannot change
        **options: Any,
    ) -> None:
        self.gateway, self.admission, self.proxies = gateway, admission, proxies
        self.guard = Guard(hosts, origins, lambda why: gateway.metrics.refusals.add(1, why))
        most = 2 * gateway.limits.connections  # ending connections count, too
        self._endpoint = Endpoint(
            self._serve, admit=self._admit, origins=self.guard.origins, connections=most, **options
        )
        table = (
            WebRoute("GET", HEALTH, "probe", self._probe),
            WebRoute("GET", READY, "probe", self._probe),
            WebRoute("GET", "/metrics", "admin", self._metrics),
            WebRoute(ANY, ROOT, "connection", self._connect),
            WebRoute(ANY, f"{ROOT}/{{agent}}", "connection", self._connect),
        )
        self.routes = Routes(self.guard, self._known, table)
        self._wires: dict[str, AcceptedTransport] = {}  # by the ids of connections
        self._clients: dict[str, ClientConnection] = {}
        self._errors = Throttle(ERRORS)

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Check live connections regularly, and disconnect clients that are not admitted any more."""
        chores = self.gateway.chores
        chores.begin(Chore(REVOCATIONS, self._send_away_revoked, WATCH_EVERY))
        chores.begin(Chore(KEYS, self.admission.refresh_keys, WATCH_EVERY))  # separately: it may be slow
        try:
            yield
        finally:
            await chores.end(REVOCATIONS, KEYS)
            await self._endpoint.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._endpoint(scope, receive, send)
            return
        scope = self.proxies.seen_through(scope)
        if scope["path"] in PROBES:
            await self.routes(scope, receive, send)
            return
        began, notes = time.monotonic(), dict[str, object]()
        scope[NOTES] = notes
        try:
            await self.routes(scope, receive, _noting(send, notes))
        finally:
            self._log(scope, began, notes)

    async def _probe(self, request: RoutedRequest) -> None:
        """Answer whether the process runs, or whether clients may come, without a reason."""
        path = request.scope["path"]
        is_well = path == HEALTH or not self.gateway.unready()
        words = "ok" if path == HEALTH else "ready" if is_well else "not ready"
        await respond(request.send, 200 if is_well else 503, f"{words}\n".encode(), PLAIN)

    def _log(self, scope: Scope, began: float, notes: dict[str, object]) -> None:
        where = (scope.get("client") or ("",))[0]
        path = scope["path"][:LONGEST]  # the query may be secret
        status = notes.pop("status", "gone")
        log_access(f"{method_of(scope)} {path}", status, began, path=path, peer=where, **notes)

    async def _connect(self, request: RoutedRequest) -> None:
        scope, receive, send, *_ = request
        if self._agent(scope["path"]) is None:
            raise RequestRefused(404, NOTHING_HERE)
        await self._endpoint(scope, receive, self._heeding(scope, _choosing(scope, send)))

    async def _metrics(self, request: RoutedRequest) -> None:
        await respond(request.send, 200, self.gateway.metrics.text().encode(), {"content-type": TYPE})

    def _agent(self, path: str) -> str | None:
        """The agent in a path."""
        if path == ROOT:
            return self.gateway.default
        name = path.removeprefix(f"{ROOT}/")
        return name if name != path and name in self.gateway.agents else None

    def send_away_quiet(self, why: str, code: int) -> int:
        """Close the idle connections; returns how many are left."""
        for wire in list(self._wires.values()):
            client = self._clients.get(wire.id)
            if client is None or client.is_quiet:
                wire.end(why, code)
        return len(self._wires)

    async def _known(self, request: WebRequest) -> Principal:
        """The principal of a request, which is also noted for the access log."""
        principal = await self.admission(request)
        request.scope.get(NOTES, {})["principal"] = principal.name
        return principal

    async def _admit(self, request: WebRequest) -> Principal:
        principal = await self._known(request)
        if request.headers.get(CONNECTION):
            return principal
        retry = {"retry-after": str(RETRY_AFTER)}
        if self.gateway.is_draining:
            raise RequestRefused(503, "this gateway is about to stop", retry)
        budget = self.gateway.budget
        if limit := budget.reached("connections", principal.name):
            raise RequestRefused(503 if limit == "connections" else 429, str(budget.refuse(limit)), retry)
        return principal

    async def _serve(self, wire: AcceptedTransport) -> None:
        agent = self._agent(wire.request.path)
        assert agent is not None
        who, erred = _principal_of(wire).name, functools.partial(self._erred, wire)
        try:
            share = self.gateway.budget.take("connections", who)
        except Overloaded as exc:  # others may have been admitted meanwhile
            wire.end(str(exc))
            return
        self._wires[wire.id] = wire
        try:
            with share:
                begun = functools.partial(self._clients.__setitem__, wire.id)
                await serve_on(functools.partial(serve_client, self.gateway, agent, who, erred, begun=begun), wire)
        finally:
            del self._wires[wire.id]
            self._clients.pop(wire.id, None)
            self._errors.forget(wire.id)

    def _erred(self, wire: AcceptedTransport) -> None:
        """Count a wrong frame of a client; a client that sends too many is disconnected."""
        self._errors.failed(wire.id)
        if self._errors.wait(wire.id) and not wire.is_over:
            who, where = _principal_of(wire).name, wire.request.peer
            log.warning("sent away for %d wrong frames in a minute: %s, at %s", ERRORS, who, where)
            self.gateway.metrics.refusals.add(1, "abuse")
            wire.end("too many wrong frames", ABUSIVE)

    def _heeding(self, scope: Scope, send: Send) -> Send:
        """Count wrong frames that never reach their connection."""
        wire = self._wires.get(read_request(scope).headers.get(CONNECTION, ""))
        if wire is None or scope["type"] != "http":
            return send

        async def sending(event: Event) -> None:
            await send(event)
            if event.get("status") in WRONG:
                self._erred(wire)

        return sending

    async def _send_away_revoked(self) -> None:
        try:
            self.admission.refresh()
        finally:
            for wire in list(self._wires.values()):
                if not self.admission.still_holds(_principal_of(wire)):
                    self.gateway.metrics.refusals.add(1, "revoked")
                    wire.end("the credential is no longer good", REVOKED)


def _principal_of(wire: AcceptedTransport) -> Principal:
    assert isinstance(wire.principal, Principal)
    return wire.principal


def _noting(send: Send, notes: dict[str, object]) -> Send:
    """Wrap `send` to note the status of the answer."""

    async def sending(event: Event) -> None:
        match event["type"]:
            case "http.response.start" | "websocket.http.response.start":
                notes["status"] = event["status"]
            case "websocket.accept":
                notes["status"] = 101
        await send(event)

    return sending


def _choosing(scope: Scope, send: Send) -> Send:
    """Answer a browser that offered subprotocols with ours, because it disconnects without one."""
    if SUBPROTOCOL not in (scope.get("subprotocols") or ()):
        return send

    async def sending(event: Event) -> None:
        await send({**event, "subprotocol": SUBPROTOCOL} if event["type"] == "websocket.accept" else event)

    return sending
