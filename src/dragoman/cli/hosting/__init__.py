"""Commands for those who host agents: `serve`, `connect`, `gateway`."""
