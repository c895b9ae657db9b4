"""Gateways for the tests of this folder, on real sockets, and clients that keep every byte they are told."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from patience import PATIENCE

from dragoman import Agent, Client, connect
from dragoman import schema as s
from dragoman.gateway.access.admission import Admission
from dragoman.gateway.access.budget import ClientSockets
from dragoman.gateway.access.guard import local_names
from dragoman.gateway.access.proxies import TrustedProxies
from dragoman.gateway.access.tokens import TokenFile, add_token
from dragoman.gateway.agents.upstream import Hosted
from dragoman.gateway.gateway import Gateway, running
from dragoman.gateway.log.sqlite import SqliteEngine
from dragoman.gateway.serving import nobody
from dragoman.gateway.web.application import Web
from dragoman.testing import Testy
from dragoman.transports.remote.server.asgi import GRACE
from dragoman.transports.remote.server.server import listening


class House:
    """A gateway that is being served."""

    def __init__(self, gateway: Gateway, web: Web, server: Any, tokens: Mapping[str, str]) -> None:
        self.gateway, self.web, self.server, self.tokens = gateway, web, server, tokens

    def url(self, path: str = "/acp", wire: str = "websocket") -> str:
        return self.server.url(path, websocket=wire == "websocket")

    def headers(self, who: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[who]}"}

    @asynccontextmanager
    async def visit(self, who: str = "ann", client: Client | None = None, **options: Any) -> AsyncIterator[Any]:
        client = client or Watcher()
        async with connect(self.url(**options), client, headers=self.headers(who)):
            yield client

    @asynccontextmanager
    async def bare(
        self, who: str = "ann", *, knows_us: bool = False, capabilities: Any = None, **options: Any
    ) -> AsyncIterator["Bare"]:
        """A client that sends and hears frames as they are."""
        from dragoman.transports.remote.dialling import dial

        bare = Bare(await dial(self.url(**options), headers=self.headers(who)))
        meta = {"_meta": {"dragoman": {}}} if knows_us else {}
        try:
            offers = {**(capabilities or {}), **meta}
            bare.greeting = await bare.ask("initialize", {"protocolVersion": 1, "clientCapabilities": offers})
            yield bare
        finally:
            await bare.wire.close()


class Bare:
    """Frames in, frames out; ids of its own choice."""

    def __init__(self, wire: Any) -> None:
        self.wire = wire
        self.frames: list[dict[str, Any]] = []
        self.greeting: dict[str, Any] = {}  # the answer to initialize
        self.ended = asyncio.Event()
        self._changed = asyncio.Event()
        self._last = 0
        wire.listen(self._hear, self.ended.set)

    def _hear(self, frames: Any) -> None:
        self.frames += [msgspec.json.decode(frame) for frame in frames]
        self._changed.set()

    def send(self, message: dict[str, Any]) -> None:
        self.wire.send([msgspec.json.encode(message)])

    async def ask(self, method: str, params: Any, id: Any = None) -> dict[str, Any]:
        """The whole answer to a request."""
        self._last += 1
        id = self._last if id is None else id
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return await self._next(lambda frame: "method" not in frame and frame.get("id") == id)

    async def hear(self, method: str) -> dict[str, Any]:
        """The next message of a method, which is then no longer here."""
        return await self._next(lambda frame: frame.get("method") == method)

    async def changed(self) -> None:
        """Wait until something more is heard."""
        self._changed.clear()
        async with asyncio.timeout(PATIENCE):
            await self._changed.wait()

    async def until(self, condition: Any) -> None:
        """Wait until something holds that changes with what is heard."""
        while not condition():
            await self.changed()

    async def _next(self, wanted: Any) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            while True:
                for at, frame in enumerate(self.frames):
                    if wanted(frame):
                        return self.frames.pop(at)
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def hosting(
    directory: Path,
    agent: Any = Testy,
    *,
    people: tuple[str, ...] = ("ann", "bob"),
    tokens: Mapping[str, str] | None = None,
    hosted: Mapping[str, Any] | None = None,
    port: int = 0,
    grace: float = GRACE,
    proxies: tuple[str, ...] = (),
    proxy_protocol: bool = False,
    **options: Any,
) -> AsyncIterator[House]:
    """Serve a gateway; one that begins anew in its directory takes the tokens that the people have already."""
    file = directory / "tokens.json"
    if tokens is None:
        tokens = {who: add_token(file, who, who) for who in people} if not file.exists() else {}
    agents = {"testy": Hosted(target=agent, **{"preset": "allow-all", **(hosted or {})})}
    gateway = Gateway(SqliteEngine(directory), agents, **options)
    admission = Admission(TokenFile(file), refused=lambda why: gateway.metrics.refusals.add(1, why))
    trusted = TrustedProxies(proxies)
    web = Web(gateway, admission, proxies=trusted, grace=grace)
    sockets = ClientSockets(gateway.budget)
    proxied = trusted.trusts if proxy_protocol else nobody
    async with running(gateway), listening(web, port=port, gate=sockets, proxied=proxied) as server:
        web.guard.hosts |= local_names("127.0.0.1", server.port)
        async with web.watching():
            yield House(gateway, web, server, tokens)


class Watcher(Client):
    """Keeps what it is told, as bytes, by session; and answers what it is asked with what `answers` holds."""

    def __init__(self, **known: Any) -> None:
        super().__init__()
        self.told: dict[str, list[bytes]] = {}
        self.heard: list[tuple[str, Any]] = []
        self.asked: asyncio.Queue[tuple[s.RequestPermissionRequest, asyncio.Future[str]]] = asyncio.Queue()
        self.changed = asyncio.Event()
        self.introduction = known

    def capabilities(self) -> s.ClientCapabilities:
        return msgspec.structs.replace(super().capabilities(), meta={"dragoman": self.introduction})

    def attach(self, connection: Any) -> None:
        super().attach(connection)
        peer = connection.peer
        peer.answer(peer._requests, _Everything(peer._notifications, self))
        connection.when_closed(self.changed.set)

    def update(self, params: s.SessionNotification) -> None:
        self.told.setdefault(params.session_id, []).append(bytes(self.connection.frame))  # type: ignore[arg-type]
        self.changed.set()
        super().update(params)

    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.asked.put_nowait((params, answer))
        return s.RequestPermissionResponse(outcome=s.SelectedPermissionOutcome(option_id=await answer))

    async def until(self, condition: Any) -> None:
        """Wait until something holds that changes with what is told."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    def numbers(self, session: str) -> list[int]:
        return [number_of(frame) for frame in self.told.get(session, [])]

    def notices(self, name: str) -> list[Any]:
        return [params for heard, params in self.heard if heard == name]


class _Everything(dict[str, Any]):
    """The notifications a watcher knows, and a note of every other."""

    def __init__(self, known: Mapping[str, Any], watcher: Watcher) -> None:
        super().__init__(known)
        self._watcher = watcher

    def get(self, name: str, default: Any = None) -> Any:
        from dragoman.events import Method

        def note(params: Any) -> None:
            self._watcher.heard.append((name, params))
            self._watcher.changed.set()

        return super().get(name) or Method(name, Any, is_request=False, handler=note)


async def until(condition: Callable[[], object]) -> None:
    """Wait until something holds that nobody tells of."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def number_of(frame: bytes) -> int:
    number: int = msgspec.json.decode(frame)["params"]["_meta"]["dragoman.seq"]
    return number


class Steps(Agent):
    """Says one word for each step it is allowed, and so waits in the middle for as long as a test wants."""

    allowed: asyncio.Semaphore

    async def answer(self, turn: Any) -> None:
        for word in turn.text.split():
            await type(self).allowed.acquire()
            await turn.say(word + " ")


def stepping() -> type[Steps]:
    return type("Stepping", (Steps,), {"allowed": asyncio.Semaphore(0)})
