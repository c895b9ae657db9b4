"""The client's side of WebSocket and HTTP."""
