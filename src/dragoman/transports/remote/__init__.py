"""WebSocket and Streamable HTTP: reach an agent at a URL, and serve an agent on the web."""

from typing import TYPE_CHECKING

from ...foundation.names import loading

if TYPE_CHECKING:
    from .client.http import dial_http
    from .client.websocket import dial_websocket
    from .dialling import dial
    from .server.asgi import endpoint
    from .server.server import listening

__all__ = ["dial", "dial_http", "dial_websocket", "endpoint", "listening"]

__getattr__ = loading(
    __name__,
    {
        "client.http": ("dial_http",),
        "client.websocket": ("dial_websocket",),
        "dialling": ("dial",),
        "server.asgi": ("endpoint",),
        "server.server": ("listening",),
    },
)
