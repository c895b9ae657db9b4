"""The table of a server's routes: method, path, permitted callers and handler, all behind one guard.

`Routes` is the ASGI application of a table.  It checks the Host and the Origin of each request, then its principal,
and only then calls the handler.  No handler checks any of that itself, so none can forget to.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from ...errors import Error
from ...transports.remote.server.accepted import WebRequest
from ...transports.remote.server.answers import Event, Receive, RequestRefused, Scope, Send, refuse
from ...transports.remote.server.asgi import read_request
from ..access.admission import Principal
from ..access.guard import Guard

# Who may ask:
#   probe      anybody, under any Host, because nothing is revealed; but no page that may not use the server
#   anybody    without a credential
#   principal  admitted clients
#   admin      admitted clients with the scope admin
#   connection clients that the handler admits, because it manages connections and their owners
Who = Literal["probe", "anybody", "principal", "admin", "connection"]
Admit = Callable[[WebRequest], Awaitable[Principal]]

ANY = "*"  # as a method: each; as a path: each that no other route has
WEBSOCKET = "WEBSOCKET"  # a method like those of HTTP, here
NOTHING_HERE = "there is nothing here"


class RoutedRequest(NamedTuple):
    """A permitted request."""

    scope: Scope
    receive: Receive
    send: Send
    named: Mapping[str, str]  # the named parts of the path
    admitted: Principal | None = None

    @property
    def principal(self) -> Principal:
        """The principal; only routes for principals and admins have one."""
        assert self.admitted is not None
        return self.admitted


class WebRoute(NamedTuple):
    """A row of the table; `{name}` in the path stands for any single part."""

    method: str
    path: str
    who: Who
    answer: Callable[[RoutedRequest], Awaitable[None]]

    def parts(self, path: str) -> dict[str, str] | None:
        """The named parts of a path; None if the path does not match."""
        if self.path == ANY:
            return {}
        wanted, given = self.path.split("/"), path.split("/")
        named: dict[str, str] = {}
        for part, found in zip(wanted, given, strict=False):
            if part.startswith("{") and found:
                named[part.strip("{}")] = found
            elif part != found:
                return None
        return named if len(wanted) == len(given) else None

    def takes(self, method: str) -> bool:
        """Whether the route is for requests of a method."""
        return self.method in (ANY, method) or (self.method, method) == ("GET", "HEAD")


def _as_it_is(scope: Scope, send: Send) -> Send:
    return send


def _without_body(send: Send) -> Send:
    async def sending(event: Event) -> None:
        await send({**event, "body": b""} if event["type"] == "http.response.body" else event)

    return sending


def _raised(exc: Error) -> RequestRefused:
    if isinstance(exc, RequestRefused):
        return exc
    raise exc


class Routes:
    """The ASGI application.

    `dress` adds headers for a permitted page to answers, `refused` turns an error into an answer.
    """

    def __init__(
        self,
        guard: Guard,
        admit: Admit,
        table: Sequence[WebRoute],
        *,
        dress: Callable[[Scope, Send], Send] = _as_it_is,
        refused: Callable[[Error], RequestRefused] = _raised,
    ) -> None:
        self.guard, self.table = guard, table
        self._admit, self._dress, self._refused = admit, dress, refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route, named = self._find(scope)
        sending = send = _without_body(send) if method_of(scope) == "HEAD" else send
        try:
            if route is not None and route.who == "probe":
                self.guard.check_page(scope)
            else:
                self.guard.check(scope)
            sending = self._dress(scope, send)
            if route is None:
                raise self._unknown(scope)
            request = RoutedRequest(scope, receive, sending, named, await self._admitted(route, scope))
            await route.answer(request)
        except Error as exc:
            refused = self._refused(exc)
            if scope["type"] == "websocket":
                await receive()  # websocket.connect
            await refuse(scope, sending, refused)

    def _find(self, scope: Scope) -> tuple[WebRoute | None, Mapping[str, str]]:
        method, path = method_of(scope), scope["path"]
        for route in self.table:
            if route.takes(method) and (named := route.parts(path)) is not None:
                return route, named
        return None, {}

    def _unknown(self, scope: Scope) -> RequestRefused:
        known = [route.method for route in self.table if route.parts(scope["path"]) is not None]
        methods = [method for method in known if method != WEBSOCKET]
        if not methods:
            return RequestRefused(404, NOTHING_HERE)
        return RequestRefused(405, f"this path takes {', '.join(methods)}", {"allow": ", ".join(methods)})

    async def _admitted(self, route: WebRoute, scope: Scope) -> Principal | None:
        if route.who not in ("principal", "admin"):
            return None
        principal = await self._admit(read_request(scope))
        if route.who == "admin" and "admin" not in principal.scopes:
            raise RequestRefused(403, "this needs a token with the scope admin")
        return principal


def method_of(scope: Scope) -> str:
    """The method of a request; a WebSocket is one, too."""
    return WEBSOCKET if scope["type"] == "websocket" else str(scope["method"])
