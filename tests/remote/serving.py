"""Servers and wires for the tests of this folder."""

from contextlib import asynccontextmanager

from dragoman.transports.remote.client.http import dial_http
from dragoman.transports.remote.client.websocket import dial_websocket
from dragoman.transports.remote.server.asgi import endpoint
from dragoman.transports.remote.server.server import listening

WIRES = ("websocket", "http/1.1", "http/2")


@asynccontextmanager
async def served(app, *, tls=None, **options):
    """An agent class behind a server of ours; yields the server."""
    agents = endpoint(app, **options)
    async with listening(agents, tls=tls) as server:
        server.endpoint = agents
        try:
            yield server
        finally:
            await agents.close()


async def dial(wire, url, **options):
    """One of the wires to a URL of whichever scheme."""
    rest = url.partition("://")[2]
    scheme = "ws" if wire == "websocket" else "http"
    if url.startswith(("wss", "https")):
        scheme += "s"
    if wire == "websocket":
        return await dial_websocket(f"{scheme}://{rest}", **options)
    return await dial_http(f"{scheme}://{rest}", version=wire.partition("/")[2], **options)
