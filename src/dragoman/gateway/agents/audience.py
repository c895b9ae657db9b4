"""The clients of an agent's process, for messages that belong to no session.

The agent's own requests go to the client with the latest request, its notifications go to all of them.
"""

from collections.abc import Callable

import msgspec
from msgspec import Raw

from ...connection.connection import Connection
from ...connection.incoming import IncomingRequest
from ...errors import Error, InternalError, RpcError
from ...events import Method
from ...proxy.relaying import relayed
from ..log.records import changed, optional

REMEMBERED = 256  # open pages, by the ids of their questions

NO_CLIENT = {"kind": "no_client"}


class Audience:
    """The clients of one agent's process; `elicited` remembers who is told when a page is completed."""

    def __init__(self) -> None:
        self._clients: dict[Connection, None] = {}
        self._asking: dict[
            int, IncomingRequest
        ] = {}  # the agent's unanswered requests, with the clients' requests behind them
        self.elicited: dict[str, Callable[[str, Raw], None]] = {}

    def join(self, client: Connection) -> None:
        self._clients[client] = None

    def leave(self, client: Connection) -> None:
        self._clients.pop(client, None)

    @property
    def is_waiting(self) -> bool:
        """Whether a client waits for an answer of the agent."""
        return bool(self._asking)

    def __len__(self) -> int:
        return len(self._clients)

    def expects(self, id: int, request: IncomingRequest | None) -> None:
        """Note that a client's request went to the agent under this id."""
        if request:
            self._asking[id] = request

    def has(self, id: int) -> None:
        """Note that the agent has answered a request."""
        self._asking.pop(id, None)

    async def asked(self, agent: Connection, name: str, params: Raw) -> Raw:
        """Pass a request of the agent to a client."""
        found = optional({"params": params}, "params")
        client = self._current()
        about = found.get("requestId")
        if about is not None and (request := self._request(about)):
            client = request.connection
            params = changed(found, requestId=client.peer.id_of(request.key))
        if client is None:
            raise InternalError("no client of this agent is connected", NO_CLIENT)
        if (id := found.get("elicitationId")) is not None:
            self.remember(id, client_teller(client))
        answer: Raw = await relayed(agent, client, Method(name, Raw, Raw), params)
        return answer

    def tell(self, name: str, params: Raw) -> None:
        """Pass a notification of the agent to every client."""
        for client in list(self._clients):
            client_teller(client)(name, params)

    def remember(self, elicitation: Raw, tell: Callable[[str, Raw], None]) -> None:
        """Note a page that somebody was asked to open; the oldest of too many is dropped."""
        self.elicited[bytes(elicitation).decode()] = tell
        if len(self.elicited) > REMEMBERED:
            del self.elicited[next(iter(self.elicited))]

    def completed(self, name: str, params: Raw) -> None:
        """Tell the asked client that a page was completed."""
        id = optional({"params": params}, "params").get("elicitationId", Raw(b""))
        tell = self.elicited.pop(bytes(id).decode(), self.tell)
        tell(name, params)

    def _current(self) -> Connection | None:
        asking = [request.connection for request in self._asking.values() if request.connection.closed is None]
        joined = [client for client in self._clients if client.closed is None]
        return next(reversed(asking or joined), None)

    def _request(self, about: Raw) -> IncomingRequest | None:
        try:
            return self._asking.get(msgspec.json.decode(about, type=int))
        except msgspec.DecodeError:
            raise RpcError.of(-32602, "requestId has to be the id of a request that is being answered") from None


def client_teller(client: Connection) -> Callable[[str, Raw], None]:
    """A function that notifies a client if it is still connected."""

    def tell(name: str, params: Raw) -> None:
        if client.closed is None:
            try:
                client.note(Method(name, Raw, is_request=False), params)
            except Error:
                client.hang_up()  # it does not read its messages

    return tell
