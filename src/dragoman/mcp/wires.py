"""How each kind of MCP server is reached: the two streams the library speaks through."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import IO, Any

from .. import schema as s
from ..turn import AgentSession
from .over_acp import relayed


@contextlib.asynccontextmanager
async def streams(config: s.McpServer, session: AgentSession, stderr: IO[str]) -> AsyncIterator[tuple[Any, Any]]:
    """A way to a server: a process of ours, an address, or the client itself."""
    match config:
        case s.McpServerStdio(command=command, args=args, env=env):
            from mcp.client.stdio import StdioServerParameters, stdio_client

            variables = {variable.name: variable.value for variable in env}
            started = StdioServerParameters(command=command, args=list(args), env=variables, cwd=session.cwd)
            async with stdio_client(started, errlog=stderr) as pair:  # type: ignore[arg-type]
                yield pair
        case s.McpServerHttp(url=url, headers=headers):
            from mcp.client.streamable_http import streamable_http_client
            from mcp.shared._httpx_utils import create_mcp_http_client

            async with (
                create_mcp_http_client(headers=_headers(headers)) as http,
                streamable_http_client(url, http_client=http) as pair,
            ):
                yield pair
        case s.McpServerSse(url=url, headers=headers):
            from mcp.client.sse import sse_client

            async with sse_client(url, headers=_headers(headers)) as pair:
                yield pair
        case s.McpServerAcp(server_id=id):
            async with relayed(session.client, id) as pair:
                yield pair


def _headers(headers: Sequence[s.HttpHeader]) -> dict[str, str]:
    return {header.name: header.value for header in headers}
