"""Translate messages between the client and the `claude` program."""
