"""Open a transport to an agent at a URL."""

import ssl
from collections.abc import Mapping

from ...errors import AgentStartError, MissingExtra
from .. import Transport
from .addresses import PATIENCE


async def dial(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
    patience: float = PATIENCE,
) -> Transport:
    """A transport to an ACP server at a ws://, wss://, http://, https:// or unix:// URL.

    After a drop it tries to reconnect for `patience` seconds.
    """
    try:
        if url.strip().lower().startswith(("ws:", "wss:", "unix:")):
            from .client.websocket import dial_websocket

            return await dial_websocket(url, headers=headers, tls=tls, patience=patience)
        from .client.http import dial_http

        return await dial_http(url, headers=headers, tls=tls, patience=patience)
    except MissingExtra as exc:
        raise AgentStartError(f"cannot reach {url.partition('?')[0]}: {exc}") from None
