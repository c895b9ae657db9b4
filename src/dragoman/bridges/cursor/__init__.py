"""Cursor's composer as a client: an HTTP server on this machine that its chat sends messages to."""
