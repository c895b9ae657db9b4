"""A proxy between a client and an agent: it handles the methods you override and passes the rest on as bytes.

A `Proxy` plays both roles at once.  What the client sends arrives at its agent methods and goes on to `self.agent`;
what the agent sends arrives at its client methods and goes on to `self.client`.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from msgspec import UNSET, Raw
from msgspec.structs import replace

from .. import codec
from ..agent.apps import App
from ..client.connecting import Target, reach, target_kind
from ..connection.connection import Connection
from ..connection.remotes import RemoteAgent, RemoteClient
from ..errors import brief
from ..events import Call, Method, Verbatim
from ..roles import AgentRole, ClientRole, methods
from .relaying import HandledRequest, Lane, Passage, Relayed, relayed, session_of

_TO_AGENT = frozenset(map(id, methods(AgentRole).values()))


class Proxy(AgentRole, ClientRole):
    """Passes every message on, in both directions and in order; override methods to see or change messages."""

    def __init__(self, upstream: Connection, downstream: Connection) -> None:
        self.client, self.agent = RemoteClient(upstream), RemoteAgent(downstream)
        self._to_agent, self._to_client = Lane(upstream, downstream), Lane(downstream, upstream)

    async def _request(self, method: Method, params: Any) -> Any:
        lane = self._lane(method)
        result = await relayed(lane.source, lane.sink, method, params)
        if method.opens:
            self.client.offers, self.agent.offers = params.client_capabilities, result.agent_capabilities
        return result

    def _notify(self, method: Method, params: Any) -> None:
        self._lane(method).note(method, params)

    def _lane(self, method: Method) -> Lane:
        return self._to_agent if id(method) in _TO_AGENT else self._to_client

    def answers(self, role: type[Any]) -> tuple[Mapping[str, Method], Mapping[str, Method]]:
        """The methods that answer one side: the proxy's own, and one that passes everything else on."""
        requests, notifications = super().answers(role)
        lane, back = self._to_agent, self._to_client
        if role is ClientRole:
            lane, back = back, lane

        def passing(name: str) -> Method:
            accept = functools.partial(Passage, lane, back, Method(name, Raw, Raw))
            return self._named(Method(name, Raw, Raw, accept=accept), back)

        def telling(name: str) -> Method:
            return Method(name, Verbatim, is_request=False, handler=lane.pass_on)

        def seen(method: Method) -> Method:
            """Wrap a method for the lane: with the request being handled, or with the notification in its order."""
            if method.is_request:
                return self._named(replace(method, accept=functools.partial(HandledRequest, lane, back)), back)
            handler = functools.partial(_tell_in_turn, lane, method.handler)
            return replace(method, handler=handler)

        opening = {m.name: self._opening(m.name, lane, back) for m in methods(role).values() if m.opens}
        own = {name: seen(method) for name, method in requests.items()}
        told = {name: seen(method) for name, method in notifications.items()}
        return Relayed({**opening, **own}, passing), Relayed(told, telling)

    def _named(self, method: Method, back: Lane) -> Method:
        """Replace the request id in an elicitation by the id that the other side uses."""
        if method.name != "elicitation/create" or (accept := method.accept) is None:
            return method
        return replace(method, accept=lambda call: accept(replace(call, params=_renamed(call.params, back))))

    def _opening(self, name: str, lane: Lane, back: Lane) -> Method:
        """Pass the handshake on, and note the capabilities of both sides."""
        types, onward = methods(AgentRole)["initialize"], Method(name, Raw, Raw)

        def opened(result: Raw) -> None:
            with contextlib.suppress(codec.Invalid):  # its capabilities are then unknown
                self.agent.offers = codec.decode_result(result, types.result).agent_capabilities

        def accept(call: Call) -> None:
            with contextlib.suppress(codec.Invalid):
                self.client.offers = codec.decode(call.params, types.params).client_capabilities
            Passage(lane, back, onward, call, opened)

        return Method(name, Raw, Raw, opens=True, accept=accept)


def _renamed(params: Any, back: Lane) -> Any:
    if not isinstance(params, Raw):
        return (
            params if params.request_id is UNSET else replace(params, request_id=back.original(params.request_id))
        )
    found = codec.decode(params, dict[str, Raw] | list[Any])
    if isinstance(found, list) or "requestId" not in found:
        return params
    original = back.original(codec.decode(found["requestId"], Any))
    return Raw(codec.encode({**found, "requestId": original}))


def _tell_in_turn(lane: Lane, handler: Callable[[Any], None] | None, params: Any) -> None:
    assert handler
    lane.in_turn(session_of(params), functools.partial(handler, params))


def compose(*chain: "type[Proxy] | Target") -> App:
    """Put proxies, outermost first, in front of an agent; `connect` and `serve` take the result."""
    *proxies, target = chain or (None,)
    app: Any = target
    for each in proxies:
        if not callable(each) or (isinstance(each, type) and not issubclass(each, Proxy)):
            shown = each.__name__ if isinstance(each, type) else brief(repr(each))
            raise TypeError(f"compose takes proxy classes and then an agent, and {shown} is not a proxy class")
    if proxies:
        target_kind(target, "compose")
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
        proxy = proxy_class(upstream, downstream)
        downstream.answer_with(*proxy.answers(ClientRole))
        running = asyncio.create_task(downstream.run(), name="downstream")
        running.add_done_callback(lambda _: upstream.hang_up())
        try:
            yield proxy
        finally:
            running.cancel()
            await asyncio.wait([running])
