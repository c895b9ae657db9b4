"""The library's two streams for each kind of MCP server."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from typing import Any

from ... import schema as s
from ...agent.turn import AgentSession
from ...foundation.destinations import PUBLIC_ONLY
from ...foundation.places import open_place
from ...foundation.programs import search_path
from ...host.audit.redaction import Redactor
from ..oauth.login import ServerLogin
from .answers import MAX_MESSAGE, OpenRequests, Streams, settled
from .over_acp import relayed
from .processes import process_streams

NOT_FOUND = 404
SESSION = "mcp-session-id"  # a header


class Loss:
    """Whether a connection is lost."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.last_words: list[str] = []  # of a process
        self.requests = OpenRequests()  # to a process
        self.login: ServerLogin | None = None
        self.refused = False  # the server had forgotten the connection and did nothing

    def set(self) -> None:
        self.event.set()

    def is_set(self) -> bool:
        return self.event.is_set()

    async def heed(self, response: Any) -> None:
        """Note an HTTP answer: 404 means that the server has forgotten its session."""
        if response.status_code == NOT_FOUND and SESSION in response.request.headers:
            self.refused = True
            self.set()


@contextlib.asynccontextmanager
async def streams(
    config: s.McpServer, session: AgentSession, loss: Loss, redactor: Redactor
) -> AsyncIterator[Streams]:
    """Connect to a server: a process of ours, an address, or the client itself; `loss` notes its end."""
    match config:
        case s.McpServerStdio(command=command, args=args, env=env):
            variables = {"PATH": search_path(), **{variable.name: variable.value for variable in env}}
            with open_place(session.cwd, os.O_DIRECTORY) as place:
                async with process_streams(
                    [command, *args],
                    place.working_directory,
                    variables,
                    ended=loss.set,
                    last_words=loss.last_words,
                    requests=loss.requests,
                ) as pair:
                    yield pair
        case s.McpServerHttp(url=url, headers=headers):
            from mcp.client.streamable_http import streamable_http_client

            from .bodies import bound

            login = loss.login = _login(config, session, redactor)
            wanted = {"accept-encoding": "identity", **_headers(headers)}
            async with _client_factory()(headers=wanted, auth=login.auth() if login else None) as http:
                http.event_hooks = {
                    "request": [login.check] if login else [],
                    "response": [*http.event_hooks["response"], loss.heed, bound],
                }
                opened = streamable_http_client(url, http_client=http, max_sse_event_size=MAX_MESSAGE)
                async with opened as (incoming, outgoing), settled(incoming, loss.set) as read:
                    yield read, outgoing
        case s.McpServerSse(url=url, headers=headers):
            from mcp.client.sse import sse_client

            login = loss.login = _login(config, session, redactor)

            def factory(*given: Any, **named: Any) -> Any:
                http = _client_factory()(*given, **named)
                http.event_hooks = {**http.event_hooks, "request": [login.check] if login else []}
                return http

            async with (
                sse_client(
                    url,
                    headers=_headers(headers),
                    httpx_client_factory=factory,
                    auth=login.auth() if login else None,
                ) as (incoming, outgoing),
                settled(incoming, loss.set) as read,
            ):
                yield read, outgoing
        case s.McpServerAcp(server_id=id):
            async with relayed(session.client, id, session.client) as pair:
                yield pair


def _login(
    config: s.McpServerHttp | s.McpServerSse, session: AgentSession, redactor: Redactor
) -> ServerLogin | None:
    """The login at an address; None if a header authorizes, or in a gateway, far from the user's browser."""
    if os.environ.get(PUBLIC_ONLY) or any(each.name.lower() == "authorization" for each in config.headers):
        return None
    return ServerLogin(config.name, config.url, session, redactor)


def _client_factory() -> Any:
    """The factory of an address's HTTP client; for agents in a gateway, of one for the public internet only."""
    if os.environ.get(PUBLIC_ONLY):
        from .public import public_client

        return public_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    return create_mcp_http_client


def _headers(headers: Sequence[s.HttpHeader]) -> dict[str, str]:
    return {header.name: header.value for header in headers}
