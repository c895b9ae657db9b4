"""Cursor's composer as a client: an HTTP server on this machine to which its chat sends messages."""
