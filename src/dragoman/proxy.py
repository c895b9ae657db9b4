"""A proxy stands between a client and an agent: override a method to step in, the rest passes as bytes.

A `Proxy` plays both roles at once.  What the client sends arrives at its agent methods and goes on to `self.agent`;
what the agent sends arrives at its client methods and goes on to `self.client`.
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Raw

from . import codec
from .agent import App
from .connecting import Target, reach
from .connection import Connection
from .errors import ConnectionClosed, InternalError, RequestCancelled, RpcError
from .roles import AgentRole, ClientRole, RemoteAgent, RemoteClient, methods
from .rpc import Method, Reply

PATIENCE = 5.0  # seconds for the next in the chain to answer a request that was cancelled

_TO_AGENT = frozenset(map(id, methods(AgentRole).values()))


class Proxy(AgentRole, ClientRole):
    """Passes everything on, both ways; override what you want to see or change."""

    def __init__(self, upstream: Connection, downstream: Connection) -> None:
        self.client, self.agent = RemoteClient(upstream), RemoteAgent(downstream)
        self._upstream, self._downstream = upstream, downstream
        self._flows: set[asyncio.Task[None]] = set()

    async def _request(self, method: Method, params: Any) -> Any:
        if id(method) not in _TO_AGENT:
            return await relayed(self._downstream, self._upstream, method, params)
        result = await relayed(self._upstream, self._downstream, method, params)
        if method.opens:
            self.client.offers, self.agent.offers = params.client_capabilities, result.agent_capabilities
        return result

    def _notify(self, method: Method, params: Any) -> None:
        if id(method) in _TO_AGENT:
            self._pass(self._upstream, self._downstream, method, params)
        else:
            self._pass(self._downstream, self._upstream, method, params)

    def answers(self, role: type[Any]) -> tuple[Mapping[str, Method], Mapping[str, Method]]:
        requests, notifications = super().answers(role)
        source, sink = self._upstream, self._downstream
        if role is ClientRole:
            source, sink = sink, source

        def relay_request(name: str) -> Method:
            onward = Method(name, Raw, Raw)
            return Method(name, Raw, Raw, handler=functools.partial(relayed, source, sink, onward))

        def relay_notification(name: str) -> Method:
            onward = Method(name, Raw, is_request=False)
            handler = functools.partial(self._pass, source, sink, onward)
            return Method(name, Raw, is_request=False, handler=handler)

        opening = {
            name: Method(name, Raw, Raw, opens=True, handler=functools.partial(self._open, Method(name, Raw, Raw)))
            for name in (m.name for m in methods(role).values() if m.opens)
        }
        return Relayed({**opening, **requests}, relay_request), Relayed(notifications, relay_notification)

    async def _open(self, method: Method, params: Raw) -> Any:
        """Pass the handshake on, and note what both sides offer."""
        result = await relayed(self._upstream, self._downstream, method, params)
        types = methods(AgentRole)["initialize"]
        self.client.offers = codec.decode(params, types.params).client_capabilities
        self.agent.offers = codec.decode_result(result, types.result).agent_capabilities
        return result

    def _pass(self, source: Connection, sink: Connection, method: Method, params: Any) -> None:
        sink.note(method, params)
        if sink.is_full:
            source.hold()
            flow = asyncio.create_task(let_through(source, sink))
            self._flows.add(flow)
            flow.add_done_callback(self._flows.discard)


class Relayed(dict[str, Method]):
    """The methods a proxy answers itself, and for every other name one that passes it on."""

    def __init__(self, own: Mapping[str, Method], relay: Callable[[str], Method]) -> None:
        super().__init__(own)
        self.relayed = relay

    def get(self, name: str, default: Any = None) -> Method:
        found = super().get(name)
        return self.relayed(name) if found is None else found


async def let_through(source: Connection, sink: Connection) -> None:
    try:
        await sink.room()
    except ConnectionClosed:
        pass  # then nothing is in the way any more
    finally:
        source.resume()


async def relayed(source: Connection, onward: Connection, method: Method, params: Any) -> Any:
    """Ask the next in the chain; to be cancelled cancels there too, and waits for its answer if it is wanted."""
    answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def settle(reply: Reply) -> None:
        if not answer.done():
            answer.set_result(reply)

    try:
        id = onward.submit(method, params, settle)
        try:
            reply = await asyncio.shield(answer)
        except asyncio.CancelledError:
            onward.hurry(id)
            async with asyncio.timeout(0 if source.closed else PATIENCE):
                reply = await answer
    except TimeoutError:
        onward.withdraw(id)
        raise RequestCancelled() from None
    except ConnectionClosed as exc:
        raise InternalError(str(exc)) from None
    match reply.error:
        case None:
            return reply.result
        case RpcError(code=code, message=message, data=data):
            raise RpcError.of(code, message, data)
        case error:
            raise InternalError(str(error))


def compose(*chain: "type[Proxy] | Target") -> App:
    """Proxies, outermost first, and at the end the agent they stand before: an app like any other."""
    *proxies, target = chain
    app: Any = target
    for proxy in reversed(proxies):
        app = functools.partial(_chained, proxy, app)  # type: ignore[arg-type]
    if not proxies:
        raise TypeError("compose needs at least one proxy, and then an agent")
    return app  # type: ignore[no-any-return]


@asynccontextmanager
async def _chained(
    proxy_class: Callable[[Connection, Connection], Proxy], target: Target, client: RemoteClient
) -> AsyncIterator[Proxy]:
    async with reach(target) as transport:
        downstream = Connection(transport, quiet=True)
        upstream = client.wire
        assert isinstance(upstream, Connection)
        proxy = proxy_class(upstream, downstream)
        downstream.answer_with(*proxy.answers(ClientRole))
        running = asyncio.create_task(downstream.run(), name="downstream")
        running.add_done_callback(lambda _: upstream.hang_up())
        try:
            yield proxy
        finally:
            running.cancel()
            await asyncio.wait([running])
