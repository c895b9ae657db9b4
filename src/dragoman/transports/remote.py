"""The way to an agent behind a URL."""

import ssl
from collections.abc import Mapping

from ..errors import AgentStartError
from . import Transport


async def dial(
    url: str, *, headers: Mapping[str, str] | None = None, tls: ssl.SSLContext | None = None
) -> Transport:
    """A wire to whatever speaks ACP at a ws://, wss://, http:// or https:// URL."""
    try:
        if url.strip().lower().startswith(("ws:", "wss:")):
            from .websocket import dial_websocket

            return await dial_websocket(url, headers=headers, tls=tls)
        from .http import dial_http

        return await dial_http(url, headers=headers, tls=tls)
    except ModuleNotFoundError as exc:
        if exc.name and exc.name.partition(".")[0] in ("h11", "h2", "websockets"):
            raise AgentStartError("remote agents need more: pip install 'dragoman[remote]'") from None
        raise
