"""Commands for hosting agents: `serve`, `connect`, `gateway` and others."""
