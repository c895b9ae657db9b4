"""A connected client: what it asks of the gateway, and what is passed on for it."""
