"""The `claude` program: start it, exchange messages with it, and run it for the user."""
