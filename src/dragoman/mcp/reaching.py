"""Reaches an MCP server that an agent offers, with the client of the official library."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from .. import schema as s
from ..client.agent_servers import MESSAGE, AgentMcpRequest, servers_in
from ..client.session import Session
from ..errors import MissingExtra, NotOffered
from .transports.over_acp import relayed

if TYPE_CHECKING:
    from mcp import Client


class _AgentServer:
    """Carries requests to a server of an agent, in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.mcp_hearers = session.client.mcp_hearers.of

    async def message_mcp(self, params: s.MessageMcpRequest) -> object:
        """Send a request; returns the encoded answer."""
        request = AgentMcpRequest(
            session_id=self._session.id,
            server_id=params.server_id,
            request_id=params.request_id,
            method=params.method,
            params=params.params,
        )
        return await self._session.client.agent.request(MESSAGE, request)


@contextlib.asynccontextmanager
async def reached(session: Session, server: str, options: Mapping[str, object]) -> "AsyncIterator[Client]":
    """The library's client of a server; raises NotOffered for one that the agent does not name."""
    offered = servers_in(session.client.agent_capabilities)
    if server not in offered:
        raise NotOffered(f"the agent offers no MCP server {server!r}; it offers: {', '.join(offered) or 'none'}")
    try:
        from mcp.client.client import Client
    except ModuleNotFoundError as exc:
        raise MissingExtra(
            f"the library that speaks MCP is not installed ({exc.name}): pip install 'dragoman[mcp]'"
        ) from exc
    streams = relayed(_AgentServer(session), server)
    async with Client(server=streams, cache=None, **options) as client:  # type: ignore[arg-type]
        yield client
