"""The server's side of WebSocket and HTTP: an ASGI endpoint, and a small server for it."""
