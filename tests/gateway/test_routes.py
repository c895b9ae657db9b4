"""The table of routes: the guard stands before every row, and a row says who may ask."""

from typing import Any

import pytest

from dragoman.errors import Error
from dragoman.gateway.access.admission import Principal
from dragoman.gateway.access.guard import Guard
from dragoman.gateway.web.routes import ANY, WEBSOCKET, RoutedRequest, Routes, WebRoute
from dragoman.transports.remote.server.accepted import WebRequest
from dragoman.transports.remote.server.answers import RequestRefused, respond

OURS, PAGE = "acp.example", "https://page.example"
ROWS = (
    ("GET", "/probe", "probe"),
    ("GET", "/open", "anybody"),
    ("GET", "/mine/{id}", "principal"),
    ("DELETE", "/mine/{id}", "principal"),
    ("GET", "/all", "admin"),
    (ANY, "/acp", "connection"),
    (WEBSOCKET, "/live", "principal"),
)


async def admit(request: WebRequest) -> Principal:
    token = request.headers.get("authorization", "")
    if token not in ("ann", "root"):
        raise RequestRefused(401, "a valid token is needed")
    return Principal(token, ("use", "admin") if token == "root" else ("use",))


async def asked(
    path: str, method: str = "GET", *, token: str = "", host: str = OURS, page: str = ""
) -> tuple[int, Any]:
    """The status of an answer, and what the row that gave it was told: its path, its parts, who asks."""
    reached: list[Any] = []

    def row(of: str) -> Any:
        async def answer(request: RoutedRequest) -> None:
            reached.append((of, dict(request.named), request.admitted and request.admitted.name))
            await respond(request.send, 200)

        return answer

    table: Any = [(how, at, who, row(at)) for how, at, who in ROWS]
    routes = Routes(Guard([OURS], [PAGE]), admit, [WebRoute(*one) for one in table])
    headers = [(b"host", host.encode())]
    headers += [(b"authorization", token.encode())] if token else []
    headers += [(b"origin", page.encode())] if page else []
    is_socket = method == WEBSOCKET
    scope = {"type": "websocket" if is_socket else "http", "method": method, "path": path, "headers": headers}
    if is_socket:
        scope["extensions"] = {"websocket.http.response": {}}
    statuses: list[int] = []

    async def send(event: Any) -> None:
        statuses.append(event.get("status", 0))

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    await routes(scope, receive, send)
    return statuses[0], reached[0] if reached else None


@pytest.mark.parametrize(("method", "path", "who"), ROWS)
async def test_the_guard_stands_before_every_row_and_the_row_says_who_may_ask(
    method: str, path: str, who: str
) -> None:
    method = "POST" if method == ANY else method
    at = path.replace("{id}", "7")
    named = {"id": "7"} if at != path else {}
    elsewhere, _ = await asked(at, method, host="evil.example", token="root")
    assert elsewhere == (200 if who == "probe" else 421)
    assert (await asked(at, method, page="https://evil.example", token="root"))[0] == 403
    needs = who in ("principal", "admin")
    assert (await asked(at, method))[0] == (401 if needs else 200)
    status, told = await asked(at, method, token="ann", page=PAGE)
    assert status == (403 if who == "admin" else 200)
    if who != "admin":
        assert told == (path, named, "ann" if needs else None)
    assert await asked(at, method, token="root") == (200, (path, named, "root" if needs else None))


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/mine", 404),
        ("GET", "/mine/", 404),
        ("GET", "/mine/7/8", 404),
        ("GET", "/mine/7/", 404),
        ("GET", "//mine/7", 404),
        ("GET", "/open/../all", 404),
        ("POST", "/mine/7", 405),
        ("POST", "/probe", 405),
        (WEBSOCKET, "/mine/7", 405),
        (WEBSOCKET, "/nowhere", 404),
        ("GET", "/live", 404),
        ("HEAD", "/open", 200),
    ],
)
async def test_a_path_is_a_row_s_whole_path_and_a_method_one_of_its_methods(
    method: str, path: str, status: int
) -> None:
    found, reached = await asked(path, method, token="root")
    assert found == status
    assert (reached is None) == (status != 200)
    assert (await asked(path, method, token="root", host="evil.example"))[0] == 421


async def test_an_error_of_what_answers_is_told_as_the_table_s_owner_says() -> None:
    async def fail(request: RoutedRequest) -> None:
        raise Error("it failed")

    routes = Routes(Guard([OURS]), admit, [WebRoute("GET", "/", "anybody", fail)])
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", OURS.encode())]}
    statuses: list[int] = []

    async def send(event: Any) -> None:
        statuses.append(event.get("status", 0))

    with pytest.raises(Error, match="it failed"):
        await routes(scope, send, send)  # type: ignore[arg-type]
    told = Routes(routes.guard, admit, routes.table, refused=lambda exc: RequestRefused(502, str(exc)))
    await told(scope, send, send)  # type: ignore[arg-type]
    assert statuses[0] == 502
