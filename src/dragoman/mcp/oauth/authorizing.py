"""Authorizes requests: each gets the token, and only a refused request waits for a login."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import httpx2

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider

REFUSED = (401, 403)


class Authorizing(httpx2.Auth):
    """Uses the library's provider only when needed, because it makes requests wait for each other's answers."""

    def __init__(self, provider: "OAuthClientProvider") -> None:
        self._provider = provider

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        known = self._provider.context
        if known.current_tokens and known.is_token_valid():
            request.headers["Authorization"] = f"Bearer {known.current_tokens.access_token}"
        response = yield request
        if response.status_code not in REFUSED:
            return
        flow = self._provider.async_auth_flow(request)
        try:
            outgoing = await flow.__anext__()
            while True:
                response = yield outgoing
                if outgoing is not request:
                    await response.aread()
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()
