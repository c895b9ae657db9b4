"""MCP servers that an agent offers its client: an extension of ours, for in the protocol only clients offer some.

The agent names them in `agentCapabilities._meta.dragoman.mcpServers`.  The messages are those of the second
generation of MCP over ACP the other way round, with a session: the client asks, and hears notifications.
"""

from collections.abc import Callable, Mapping

from .. import schema as s
from ..dialects.declared import OURS
from ..events import Method
from ..schema.protocol import SessionId

MESSAGE = "_dragoman/mcp/message"
SERVERS = "mcpServers"


class AgentMcpRequest(s.MessageMcpRequest, kw_only=True):
    """A request to one of the agent's servers; `server_id` is its name."""

    session_id: SessionId


class AgentMcpNotification(s.MessageMcpNotification, kw_only=True):
    """What a server has to say about such a request while it is open."""

    session_id: SessionId


class McpHearers:
    """Whom a client tells what the agent's servers say, by server and request."""

    def __init__(self) -> None:
        self.of: dict[tuple[str, str], Callable[[s.MessageMcpNotification], None]] = {}

    def answers(self) -> dict[str, Method]:
        """The notification that is heard."""
        return {MESSAGE: Method(MESSAGE, AgentMcpNotification, is_request=False, handler=self._hear)}

    def _hear(self, params: AgentMcpNotification) -> None:
        if hearer := self.of.get((params.server_id, params.request_id)):
            hearer(params)


def servers_in(capabilities: s.AgentCapabilities) -> list[str]:
    """The names of the servers that an agent offers."""
    ours = (capabilities.meta or {}).get(OURS)
    named = ours.get(SERVERS) if isinstance(ours, Mapping) else None
    return [name for name in named if isinstance(name, str)] if isinstance(named, list | tuple) else []
