"""The servers that an agent offers its client."""

from collections.abc import Container, Sequence

from ... import schema as s
from ...client.agent_servers import MESSAGE, AgentMcpNotification, AgentMcpRequest
from ...connection.remotes import RemoteClient
from ...errors import ResourceNotFound
from ...events import Method
from .answering import AnsweringServers
from .running import name_of


class ExposedServers(AnsweringServers):
    """The servers in `Agent.mcp_servers`, for one client, which reaches them in its sessions."""

    def __init__(self, servers: Sequence[object], client: RemoteClient, sessions: Container[str]) -> None:
        super().__init__({name_of(source): (name_of(source), source) for source in servers})
        self._client, self._sessions = client, sessions

    @property
    def names(self) -> list[str]:
        """The names for the client."""
        return [*self._sources]

    def answers(self) -> dict[str, Method]:
        """The handler of the requests to the servers."""
        return {MESSAGE: Method(MESSAGE, AgentMcpRequest, s.MessageMcpResponse, handler=self._message)}

    async def _message(self, params: AgentMcpRequest) -> s.MessageMcpResponse:
        if params.session_id not in self._sessions:
            raise ResourceNotFound("there is no such session", {"sessionId": params.session_id})
        return await self.answer(params)

    def tell(self, params: s.MessageMcpRequest, method: str, told: s.JsonObject) -> None:
        """Send the client a message about an open request."""
        assert isinstance(params, AgentMcpRequest)
        note = AgentMcpNotification(
            session_id=params.session_id,
            server_id=params.server_id,
            request_id=params.request_id,
            method=method,
            params=told,
        )
        self._client.notify(MESSAGE, note)
