"""Reaches MCP servers on the public internet only, for agents in a gateway, whose network is not their clients'.

Each request, and each redirect, resolves its host again and connects to a checked address.
"""

import asyncio
import ssl
from typing import Any

import httpx2

from ...foundation import destinations

TIMEOUT = httpx2.Timeout(30.0, read=300.0)  # as in the library: a server may hold a stream open


class PublicTransport(httpx2.AsyncBaseTransport):
    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._wire = httpx2.AsyncHTTPTransport(verify=tls or True, trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            place = await asyncio.to_thread(destinations.find, str(request.url))
        except destinations.DestinationRefused as exc:
            raise httpx2.ConnectError(str(exc), request=request) from exc
        request.url = request.url.copy_with(host=place.addresses[0])
        request.extensions = {**request.extensions, "sni_hostname": place.host}  # the name in the certificate
        return await self._wire.handle_async_request(request)

    async def aclose(self) -> None:
        await self._wire.aclose()


def public_client(
    headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None
) -> httpx2.AsyncClient:
    """An HTTP client that reaches only the public internet and follows no redirect by itself."""
    return httpx2.AsyncClient(
        headers=headers, timeout=timeout or TIMEOUT, auth=auth, transport=PublicTransport(), trust_env=False
    )
